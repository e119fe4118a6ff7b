//! Each step, seen by a client that reads the frames' meaning and nothing more.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::message::{Messages, frame_message};
use super::{ErrorCode, Script, Server, Step};

/// Long enough for a slow machine; no test waits it out.
const SOON: Duration = Duration::from_secs(20);
/// How long a client is watched not getting something.
const A_WHILE: Duration = Duration::from_millis(60);

struct Caller {
    send: SendRequest<Bytes>,
}

/// What came of a call.
#[derive(Debug, Default)]
struct Outcome {
    initial: HeaderMap,
    messages: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    error: Option<h2::Error>,
}

impl Outcome {
    /// The status, wherever it stands.
    fn status(&self) -> &str {
        let place = self.trailers.as_ref().unwrap_or(&self.initial);
        place["grpc-status"].to_str().unwrap()
    }

    fn is_trailers_only(&self) -> bool {
        self.trailers.is_none() && self.initial.contains_key("grpc-status")
    }

    fn reason(&self) -> Option<Reason> {
        self.error.as_ref()?.reason()
    }
}

impl Caller {
    async fn new(server: &Server) -> Self {
        let socket = TcpStream::connect(server.addr()).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (send, connection) = h2::client::handshake(socket).await.unwrap();
        // Ends with an error when the server breaks it, which the calls meet as well.
        tokio::spawn(connection);
        Self { send }
    }

    fn open(&mut self) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post("http://server/test.Echo/Call")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", "5S")
            .header("grpc-previous-rpc-attempts", "2")
            .body(())
            .unwrap();
        self.send.send_request(request, false).unwrap()
    }

    async fn call(&mut self, messages: &[&str]) -> Outcome {
        let (response, mut stream) = self.open();
        for message in messages {
            stream
                .send_data(frame_message(message.as_bytes()), false)
                .unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
        timeout(SOON, outcome(response))
            .await
            .expect("the call hangs")
    }
}

async fn outcome(response: ResponseFuture) -> Outcome {
    let mut outcome = Outcome::default();
    match response.await {
        Ok(response) => {
            let (head, mut body) = response.into_parts();
            outcome.initial = head.headers;
            match read(&mut body, &mut outcome.messages).await {
                Ok(trailers) => outcome.trailers = trailers,
                Err(error) => outcome.error = Some(error),
            }
        }
        Err(error) => outcome.error = Some(error),
    }
    outcome
}

async fn read(
    body: &mut RecvStream,
    into: &mut Vec<Bytes>,
) -> Result<Option<HeaderMap>, h2::Error> {
    let mut messages = Messages::default();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        messages.push(&data);
        into.extend(messages.next_message().unwrap());
        while let Some(message) = messages.next_message().unwrap() {
            into.push(message);
        }
    }
    body.trailers().await
}

async fn with(script: impl Into<Script>) -> (Server, Caller) {
    let server = Server::start(script).await.unwrap();
    let caller = Caller::new(&server).await;
    (server, caller)
}

#[tokio::test]
async fn a_unary_answer_has_headers_one_message_and_trailers() {
    let step = Step::ok("hello")
        .initial("x-first", "1")
        .trailer("x-last", "2");
    let (server, mut caller) = with(step).await;
    let outcome = caller.call(&["name"]).await;
    assert_eq!(outcome.initial["content-type"], "application/grpc");
    assert_eq!(outcome.initial["x-first"], "1");
    assert_eq!(outcome.messages, ["hello"]);
    assert_eq!(outcome.status(), "0");
    assert_eq!(outcome.trailers.as_ref().unwrap()["x-last"], "2");
    assert!(outcome.error.is_none());

    let call = &server.seen()[0];
    assert_eq!(
        (call.path.as_str(), call.connection, call.number),
        ("/test.Echo/Call", 0, 0)
    );
    assert_eq!(
        (call.header("grpc-timeout"), call.previous_attempts()),
        (Some("5S"), Some(2))
    );
    assert_eq!(call.header_values("te"), ["trailers"]);
    assert_eq!(
        (&call.messages[..], call.half_closed),
        (&[Bytes::from("name")][..], true)
    );
    assert!(call.cancelled.is_none());
}

/// R10
#[tokio::test]
async fn trailers_only_is_one_header_block_with_pushback_and_text() {
    let refused = Step::trailers_only(14, "50% grün")
        .pushback("10")
        .trailer("x", "y");
    let (_server, mut caller) = with(refused.clone().pushback("11")).await;
    let outcome = caller.call(&["name"]).await;
    assert!(outcome.is_trailers_only() && outcome.messages.is_empty());
    assert_eq!(outcome.status(), "14");
    assert_eq!(outcome.initial["grpc-message"], "50%25 gr%C3%BCn");
    let pushback: Vec<_> = outcome
        .initial
        .get_all("grpc-retry-pushback-ms")
        .iter()
        .collect();
    assert_eq!(pushback, ["10", "11"]);
    assert_eq!(outcome.initial["x"], "y");
}

/// R51
#[tokio::test]
async fn headers_before_the_status_commit_the_call() {
    let script = Script::new()
        .then(Step::headers_then_status(14).pushback("10"))
        .then(Step::messages(["one", "two"]).status(13, "no more"))
        .then(Step::messages(["one"]).end_reset(ErrorCode::CANCEL))
        .then(Step::messages(["one"]).end_close());
    let (server, mut caller) = with(script).await;
    let outcome = caller.call(&[]).await;
    assert!(!outcome.is_trailers_only() && !outcome.initial.contains_key("grpc-status"));
    assert_eq!(outcome.status(), "14");
    assert_eq!(outcome.trailers.unwrap()["grpc-retry-pushback-ms"], "10");
    let outcome = caller.call(&[]).await;
    assert_eq!(
        (outcome.status(), &outcome.messages[..]),
        ("13", &["one", "two"].map(Bytes::from)[..])
    );
    let outcome = caller.call(&[]).await;
    assert_eq!(
        (outcome.messages.len(), outcome.reason()),
        (1, Some(Reason::CANCEL))
    );
    let outcome = caller.call(&[]).await;
    assert!(outcome.trailers.is_none());
    assert_eq!(outcome.messages, ["one"]);
    assert!(server.cancelled().is_empty());
}

#[tokio::test]
async fn an_answer_that_never_ends_can_be_cancelled() {
    let (server, mut caller) = with(Step::ok("one").end_hang()).await;
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    timeout(SOON, body.data()).await.unwrap().unwrap().unwrap();
    assert!(timeout(A_WHILE, body.data()).await.is_err());
    drop((body, stream));
    let call = &timeout(SOON, server.wait_cancelled(1)).await.unwrap()[0];
    assert_eq!(call.cancelled.unwrap().code, Some(ErrorCode::CANCEL));
}

#[tokio::test]
async fn echo_serves_every_kind_of_method() {
    let (server, mut caller) = with(Step::echo().trailer("x", "y")).await;
    let outcome = caller.call(&["one", "", "three"]).await;
    assert_eq!(outcome.messages, ["one", "", "three"]);
    assert_eq!(outcome.status(), "0");
    assert_eq!(outcome.trailers.unwrap()["x"], "y");

    // Back and forth: each answer comes before the next question.
    let (response, mut stream) = caller.open();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    for question in ["ping", "pong"] {
        stream
            .send_data(frame_message(question.as_bytes()), false)
            .unwrap();
        let answer = timeout(SOON, body.data()).await.unwrap().unwrap().unwrap();
        assert_eq!(answer, frame_message(question.as_bytes()));
    }
    stream.send_data(Bytes::new(), true).unwrap();
    assert!(timeout(SOON, body.data()).await.unwrap().is_none());
    assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    assert_eq!(server.seen()[1].messages, ["ping", "pong"]);
}

#[tokio::test]
async fn a_handler_answers_by_what_the_call_brings() {
    let script = Script::handler(|call| match call.messages.first() {
        Some(message) if call.number > 0 => Step::ok(message.clone()),
        _ => Step::trailers_only(5, ""),
    });
    let (server, mut caller) = with(script).await;
    let outcome = caller.call(&["name"]).await;
    assert_eq!(outcome.status(), "5");
    assert!(!outcome.initial.contains_key("grpc-message"));
    assert_eq!(caller.call(&["name"]).await.messages, ["name"]);
    assert_eq!(caller.call(&[]).await.status(), "5");
    server.script_push(Step::ok("pushed"));
    assert_eq!(caller.call(&[]).await.messages, ["pushed"]);
}

/// R61
#[tokio::test]
async fn refused_streams_go_away_and_resets_are_told_apart() {
    let script = Script::new()
        .then(Step::ok("first"))
        .then(Step::refuse_stream())
        .then(Step::reset(ErrorCode::INTERNAL_ERROR))
        .then(Step::go_away())
        .otherwise(Step::ok("again"));
    let (server, mut caller) = with(script).await;
    assert_eq!(caller.call(&[]).await.status(), "0");
    assert_eq!(
        caller.call(&[]).await.reason(),
        Some(Reason::REFUSED_STREAM)
    );
    assert_eq!(
        caller.call(&[]).await.reason(),
        Some(Reason::INTERNAL_ERROR)
    );
    let gone = caller.call(&[]).await.error.unwrap();
    assert!(gone.is_go_away() && gone.is_remote());
    assert_eq!(gone.reason(), Some(Reason::NO_ERROR));
    let mut caller = Caller::new(&server).await;
    assert_eq!(caller.call(&[]).await.messages, ["again"]);
    assert_eq!((server.seen_count(), server.connections_accepted()), (5, 2));
}

#[tokio::test]
async fn go_away_leaves_earlier_streams_to_finish() {
    let script = Script::new().then(Step::echo()).then(Step::go_away());
    let (_server, mut caller) = with(script).await;
    let (response, mut stream) = caller.open();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    assert!(caller.call(&[]).await.error.unwrap().is_go_away());
    stream
        .send_data(frame_message(b"still here"), true)
        .unwrap();
    let mut messages = Vec::new();
    let trailers = timeout(SOON, read(&mut body, &mut messages))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(messages, ["still here"]);
    assert_eq!(trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_closed_connection_and_half_a_frame_leave_no_status() {
    for step in [Step::close(), Step::half_frame()] {
        let (server, mut caller) = with(step).await;
        let error = caller.call(&["name"]).await.error.unwrap();
        assert!(!error.is_reset() || error.reason() != Some(Reason::REFUSED_STREAM));
        assert!(server.cancelled().is_empty());
        assert_eq!(server.seen()[0].messages, ["name"]);
    }
}

#[tokio::test]
async fn a_hanging_call_is_recorded_up_to_its_cancellation() {
    let (server, mut caller) = with(Step::hang()).await;
    let (response, mut stream) = caller.open();
    stream.send_data(frame_message(b"one"), false).unwrap();
    tokio::spawn(response);
    timeout(SOON, server.wait_for(1, |call| call.messages.len() == 1))
        .await
        .unwrap();
    stream.send_data(frame_message(b"two"), false).unwrap();
    timeout(SOON, server.wait_for(1, |call| call.messages.len() == 2))
        .await
        .unwrap();
    stream.send_reset(Reason::CANCEL);
    let call = &timeout(SOON, server.wait_cancelled(1)).await.unwrap()[0];
    assert_eq!(call.cancelled.unwrap().code, Some(ErrorCode::CANCEL));
    assert_eq!(
        (&call.messages[..], call.half_closed),
        (&["one", "two"].map(Bytes::from)[..], false)
    );
}

#[tokio::test]
async fn a_step_waits_for_the_half_close_unless_told_otherwise() {
    let script = Script::new()
        .then(Step::ok("slow"))
        .then(Step::trailers_only(14, "").at_once())
        .then(Step::ok("two").after_messages(2));
    let (_server, mut caller) = with(script).await;
    let (response, mut stream) = caller.open();
    stream.send_data(frame_message(b"one"), false).unwrap();
    let mut response = Box::pin(outcome(response));
    assert!(timeout(A_WHILE, &mut response).await.is_err());
    stream.send_data(Bytes::new(), true).unwrap();
    assert_eq!(timeout(SOON, response).await.unwrap().messages, ["slow"]);

    let (response, _stream) = caller.open();
    assert_eq!(
        timeout(SOON, outcome(response)).await.unwrap().status(),
        "14"
    );

    let (response, mut stream) = caller.open();
    for message in ["one", "two"] {
        stream
            .send_data(frame_message(message.as_bytes()), false)
            .unwrap();
    }
    assert_eq!(
        timeout(SOON, outcome(response)).await.unwrap().messages,
        ["two"]
    );
}

#[tokio::test]
async fn delays_stand_before_the_headers_the_messages_and_the_end() {
    let delay = Duration::from_millis(30);
    let step = Step::messages(["one", "two"])
        .after(delay)
        .between(delay)
        .end_after(delay);
    let (_server, mut caller) = with(step).await;
    let start = Instant::now();
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    assert!(start.elapsed() >= delay);
    let mut messages = Vec::new();
    timeout(SOON, read(&mut body, &mut messages))
        .await
        .unwrap()
        .unwrap();
    assert!(messages.len() == 2 && start.elapsed() >= delay * 4);
}

#[tokio::test]
async fn what_is_not_grpc_is_told_so() {
    let (server, mut caller) = with(Script::new().then(Step::http_status(503))).await;
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let response = timeout(SOON, response).await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 503);
    assert!(!response.headers().contains_key("grpc-status"));

    let request = Request::get("http://server/").body(()).unwrap();
    let (response, _) = caller.send.send_request(request, true).unwrap();
    assert_eq!(
        timeout(SOON, response)
            .await
            .unwrap()
            .unwrap()
            .status()
            .as_u16(),
        415
    );
    assert_eq!(server.seen_count(), 1);

    for (bytes, status) in [
        (&[1u8, 0, 0, 0, 0][..], "12"),
        (&[0, 255, 0, 0, 0], "8"),
        (&[0], "13"),
    ] {
        let (response, mut stream) = caller.open();
        stream
            .send_data(Bytes::copy_from_slice(bytes), true)
            .unwrap();
        let outcome = timeout(SOON, outcome(response)).await.unwrap();
        assert_eq!(outcome.status(), status);
        assert!(outcome.is_trailers_only());
    }
}
