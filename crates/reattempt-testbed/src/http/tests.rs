//! Each step, seen from the client's side of the wire.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{ErrorCode, Options, Protocol, Script, Server, Step};

type BoxError = Box<dyn Error + Send + Sync>;

/// Long enough for a slow machine; no test waits it out.
const SOON: Duration = Duration::from_secs(20);
/// How long a client is watched not getting something.
const A_WHILE: Duration = Duration::from_millis(60);

#[derive(Clone)]
struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Caller {
    fn new(http2: bool) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.retry_canceled_requests(false).http2_only(http2);
        Self {
            client: builder.build_http(),
        }
    }

    async fn send(&self, server: &Server, path: &str) -> Result<Response<Bytes>, BoxError> {
        self.send_body(server, path, "").await
    }

    async fn send_body(
        &self,
        server: &Server,
        path: &str,
        body: &'static str,
    ) -> Result<Response<Bytes>, BoxError> {
        let request = Request::post(format!("{}{path}", server.uri()))
            .header("x-test", "yes")
            .body(Full::from(body))?;
        let response = timeout(SOON, self.client.request(request)).await??;
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(
            head,
            timeout(SOON, body.collect()).await??.to_bytes(),
        ))
    }

    async fn fail(&self, server: &Server) -> BoxError {
        self.send(server, "/")
            .await
            .expect_err("the step should have failed the call")
    }
}

/// The error of h2 beneath whatever wraps it.
fn h2_error<'a>(error: &'a (dyn Error + 'static)) -> &'a h2::Error {
    let mut error = error;
    loop {
        if let Some(found) = error.downcast_ref() {
            return found;
        }
        error = error.source().expect("an error of h2 in the chain");
    }
}

async fn both(script: impl Fn() -> Script, test: impl AsyncFn(bool, Server, Caller)) {
    for http2 in [false, true] {
        let server = Server::start(script()).await.unwrap();
        timeout(SOON * 2, test(http2, server, Caller::new(http2)))
            .await
            .expect("the test hangs");
    }
}

#[tokio::test]
async fn answers_follow_the_queue_and_then_the_default() {
    let script = || {
        Script::new()
            .then(Step::status(503).header("Retry-After", "1"))
            .then_times(2, Step::status(429).body("slow down"))
            .otherwise(Step::status(204))
    };
    both(script, async |http2, server, caller| {
        let first = caller.send_body(&server, "/a?b=c", "hello").await.unwrap();
        assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(first.headers()["retry-after"], "1");
        for _ in 0..2 {
            let response = caller.send(&server, "/").await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.body()[..]),
                (429, &b"slow down"[..])
            );
        }
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::NO_CONTENT
        );

        let seen = server.seen();
        assert_eq!(seen.len(), 4);
        let version = if http2 {
            Version::HTTP_2
        } else {
            Version::HTTP_11
        };
        assert_eq!((seen[0].version, &seen[0].method), (version, &Method::POST));
        assert_eq!(
            (seen[0].path.as_str(), seen[0].header("x-test")),
            ("/a?b=c", Some("yes"))
        );
        assert_eq!(
            (&seen[0].body[..], seen[0].body_complete),
            (&b"hello"[..], true)
        );
        assert_eq!((seen[3].number, seen[3].connection), (3, 0));
        assert!(seen[3].arrival >= seen[0].arrival && server.cancelled().is_empty());
        // One connection was kept alive for all.
        assert_eq!(
            (server.connections_accepted(), server.connections_open()),
            (1, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn a_handler_decides_by_what_it_sees_and_can_be_changed() {
    let script = || {
        Script::handler(|request| match (request.path.as_str(), &request.body[..]) {
            ("/made", body) => Step::status(201).body(body.to_vec()),
            _ => Step::status(if request.number == 0 { 500 } else { 404 }),
        })
    };
    both(script, async |_, server, caller| {
        let status = async |path| caller.send(&server, path).await.unwrap().status().as_u16();
        assert_eq!((status("/").await, status("/").await), (500, 404));
        let made = caller.send_body(&server, "/made", "it").await.unwrap();
        assert_eq!(
            (made.status().as_u16(), &made.body()[..]),
            (201, &b"it"[..])
        );
        server.set_handler(|_| Step::status(410));
        server.script_push(Step::status(418));
        assert_eq!((status("/").await, status("/").await), (418, 410));
        server.set_script(Step::status(202));
        assert_eq!(status("/").await, 202);
        server.forget();
        assert_eq!((server.seen().len(), server.seen_count()), (0, 6));
    })
    .await;
}

#[tokio::test]
async fn head_and_body_are_delayed_separately() {
    let delay = Duration::from_millis(50);
    let script = || {
        Step::status(200)
            .after(delay)
            .body("late")
            .body_after(delay)
            .into()
    };
    both(script, async |_, server, caller| {
        let start = Instant::now();
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        let response = caller.client.request(request).await.unwrap();
        let head = start.elapsed();
        assert!(head >= delay);
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "late"
        );
        assert!(start.elapsed() >= delay * 2);
    })
    .await;
}

#[tokio::test]
async fn a_large_body_keeps_to_the_windows_of_the_client() {
    let body = vec![b'x'; 3 << 20];
    let script = || Step::status(200).body(body.clone()).into();
    both(script, async |_, server, caller| {
        let response = caller.send(&server, "/").await.unwrap();
        assert_eq!(response.body().len(), 3 << 20);
        // A second one: every window was given back.
        assert_eq!(
            caller.send(&server, "/").await.unwrap().body().len(),
            3 << 20
        );
    })
    .await;
}

#[tokio::test]
async fn a_large_request_body_is_taken_whole() {
    let body: &'static str = Box::leak("y".repeat(3 << 20).into_boxed_str());
    both(Script::new, async |_, server, caller| {
        caller.send_body(&server, "/", body).await.unwrap();
        caller.send_body(&server, "/", body).await.unwrap();
        assert_eq!(server.seen()[1].body.len(), 3 << 20);
    })
    .await;
}

#[tokio::test]
async fn a_hanging_call_is_seen_and_so_is_its_cancellation() {
    both(
        || Step::hang().into(),
        async |http2, server, caller| {
            // The client lives on, so that only the call is given up and not its connection.
            let request = Request::get(server.uri()).body(Full::default()).unwrap();
            let call = tokio::spawn(caller.client.request(request));
            server.wait_seen(1).await;
            assert!(timeout(A_WHILE, server.wait_cancelled(1)).await.is_err());
            call.abort();
            let cancelled = timeout(SOON, server.wait_cancelled(1)).await.unwrap();
            let code = cancelled[0].cancelled.unwrap().code;
            assert_eq!(code, http2.then_some(ErrorCode::CANCEL));
            assert!(cancelled[0].cancelled.unwrap().at >= cancelled[0].arrival);
        },
    )
    .await;
}

#[tokio::test]
async fn a_connection_lost_by_the_client_cancels_every_stream_on_it() {
    let server = Server::start(Step::hang()).await.unwrap();
    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..2 {
        let request = Request::get(server.uri()).body(()).unwrap();
        let (response, _) = send.send_request(request, true).unwrap();
        tokio::spawn(response);
    }
    server.wait_seen(2).await;
    connection.abort();
    let cancelled = timeout(SOON, server.wait_cancelled(2)).await.unwrap();
    assert!(
        cancelled
            .iter()
            .all(|request| request.cancelled.unwrap().code.is_none())
    );
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_fails_the_call() {
    both(
        || Script::new().then(Step::close_before()),
        async |_, server, caller| {
            caller.fail(&server).await;
            assert_eq!(
                caller.send(&server, "/").await.unwrap().status(),
                StatusCode::OK
            );
            assert_eq!(server.connections_accepted(), 2);
            assert!(server.cancelled().is_empty());
        },
    )
    .await;
}

#[tokio::test]
async fn a_body_breaks_off_in_each_way() {
    for http2 in [false, true] {
        let steps = [Step::close_during_body(5), Step::reset_during_body(5)];
        for step in steps.map(|step| {
            step.with_status(206)
                .header("x-part", "1")
                .body("hello world")
        }) {
            let server = Server::start(step).await.unwrap();
            let request = Request::get(server.uri()).body(Full::default()).unwrap();
            let response = Caller::new(http2).client.request(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            assert_eq!(response.headers()["x-part"], "1");
            assert_eq!(response.headers()["content-length"], "11");
            let mut body = response.into_body();
            let mut came = Vec::new();
            let error = loop {
                match timeout(SOON, body.frame())
                    .await
                    .unwrap()
                    .expect("no orderly end")
                {
                    Ok(frame) => came.extend_from_slice(&frame.into_data().unwrap()),
                    Err(error) => break error,
                }
            };
            // A reset may overtake the bytes before it.
            assert!(b"hello".starts_with(&came), "{came:?} {error:?}");
        }
        let server = Server::start(Step::hang_during_body(5)).await.unwrap();
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        let response = Caller::new(http2).client.request(request).await.unwrap();
        let mut body = response.into_body();
        let first = timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), ".....");
        assert!(timeout(A_WHILE, body.frame()).await.is_err());
        drop(body);
        timeout(SOON, server.wait_cancelled(1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_reset_is_a_reset_on_the_wire() {
    let server = Server::start(Step::reset()).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = timeout(SOON, socket.read(&mut [0; 10]))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    server.set_script(Step::reset_with(ErrorCode::ENHANCE_YOUR_CALM));
    let error = Caller::new(true).fail(&server).await;
    let error = h2_error(&*error);
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn refused_streams_and_go_away_say_that_nothing_was_processed() {
    let script = || {
        Script::new()
            .then(Step::status(200))
            .then(Step::refuse_stream())
            .then(Step::go_away())
            .otherwise(Step::status(200))
    };
    both(script, async |http2, server, caller| {
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::OK
        );
        let refused = caller.fail(&server).await;
        let gone = caller.fail(&server).await;
        if http2 {
            let refused = h2_error(&*refused);
            assert!(refused.is_reset() && refused.is_remote());
            assert_eq!(refused.reason(), Some(h2::Reason::REFUSED_STREAM));
            let gone = h2_error(&*gone);
            assert!(gone.is_go_away() && gone.is_remote());
            assert_eq!(gone.reason(), Some(h2::Reason::NO_ERROR));
        }
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::OK
        );
        let connections: Vec<_> = server
            .seen()
            .iter()
            .map(|request| request.connection)
            .collect();
        assert_eq!(connections, if http2 { [0, 0, 0, 1] } else { [0, 0, 1, 2] });
    })
    .await;
}

#[tokio::test]
async fn half_of_an_answer_and_then_the_end() {
    both(
        || Step::half_frame().into(),
        async |_, server, caller| {
            caller.fail(&server).await;
        },
    )
    .await;
    let server = Server::start(Step::half_frame().header("x", "y"))
        .await
        .unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut came = String::new();
    timeout(SOON, socket.read_to_string(&mut came))
        .await
        .unwrap()
        .unwrap();
    let whole = "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(came, whole[..whole.len() / 2]);
}

#[tokio::test]
async fn an_answer_at_once_does_not_wait_for_the_body() {
    let server = Server::start(Step::status(413).at_once()).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket
        .write_all(b"PUT / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf")
        .await
        .unwrap();
    let mut came = String::new();
    timeout(SOON, socket.read_to_string(&mut came))
        .await
        .unwrap()
        .unwrap();
    assert!(came.starts_with("HTTP/1.1 413"), "{came}");

    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::put(server.uri()).body(()).unwrap();
    let (response, _body) = send.send_request(request, false).unwrap();
    assert_eq!(
        timeout(SOON, response)
            .await
            .unwrap()
            .unwrap()
            .status()
            .as_u16(),
        413
    );
    assert!(server.seen().iter().all(|request| !request.body_complete));
}

#[tokio::test]
async fn chunked_bodies_and_expectations_are_understood() {
    let server = Server::start(Step::status(200)).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    let head = b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    socket.write_all(head).await.unwrap();
    let mut answer = [0; 25];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    let rest = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: x\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
    socket.write_all(rest).await.unwrap();
    let mut came = String::new();
    socket.read_to_string(&mut came).await.unwrap();
    assert_eq!(came.matches("HTTP/1.1 200 OK").count(), 2);
    let seen = server.seen();
    assert_eq!(
        (&seen[0].body[..], seen[1].path.as_str()),
        (&b"abcde"[..], "/2")
    );
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let answer = async |options, bytes: &[u8]| {
        let server = Server::start_with(options, Script::new()).await.unwrap();
        let mut socket = TcpStream::connect(server.addr()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut came = Vec::new();
        timeout(SOON, socket.read_to_end(&mut came))
            .await
            .unwrap()
            .unwrap();
        came
    };
    let options = Options::new().max_body(3);
    assert!(
        answer(options, b"hello\r\n\r\n")
            .await
            .starts_with(b"HTTP/1.1 400")
    );
    let large = b"PUT / HTTP/1.1\r\ncontent-length: 4\r\n\r\n1234";
    assert!(answer(options, large).await.starts_with(b"HTTP/1.1 413"));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let only_1 = options.protocol(Protocol::Http1);
    assert!(answer(only_1, preface).await.starts_with(b"HTTP/1.1 400"));
    let go_away = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    let only_2 = options.protocol(Protocol::Http2);
    assert!(answer(only_2, &[b'x'; 24]).await.ends_with(go_away));
    // DATA on a stream that was never opened.
    let data = [&preface[..], b"\0\0\0\0\0\0\0\0\x01"].concat();
    assert!(answer(options, &data).await.ends_with(go_away));
}

#[tokio::test]
async fn a_body_beyond_the_bound_resets_its_stream_only() {
    let options = Options::new().max_body(3);
    let server = Server::start_with(options, Script::new()).await.unwrap();
    let caller = Caller::new(true);
    let error = caller.send_body(&server, "/", "1234").await.unwrap_err();
    assert_eq!(
        h2_error(&*error).reason(),
        Some(h2::Reason::ENHANCE_YOUR_CALM)
    );
    assert_eq!(
        caller
            .send_body(&server, "/", "123")
            .await
            .unwrap()
            .status(),
        StatusCode::OK
    );
    assert_eq!(server.connections_accepted(), 1);
}

#[tokio::test]
async fn a_stopped_server_frees_its_address_for_another() {
    let server = Server::start(Step::hang()).await.unwrap();
    let (address, caller) = (server.addr(), Caller::new(true));
    let hanging = tokio::spawn({
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        caller.client.request(request)
    });
    server.wait_seen(1).await;
    timeout(SOON, server.stop()).await.unwrap();
    assert!(timeout(SOON, hanging).await.unwrap().unwrap().is_err());
    assert_eq!((server.connections_open(), server.seen().len()), (0, 1));
    assert!(TcpStream::connect(address).await.is_err());

    let moved = Server::start_with(Options::new().at(address), Step::status(201))
        .await
        .unwrap();
    assert_eq!(moved.addr(), address);
    assert_eq!(
        caller.send(&moved, "/").await.unwrap().status(),
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn dropping_connections_or_the_server_ends_calls() {
    let server = Server::start(Step::hang()).await.unwrap();
    let call = |server: &Server| {
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        tokio::spawn(Caller::new(false).client.request(request))
    };
    let first = call(&server);
    server.wait_seen(1).await;
    server.drop_connections();
    assert!(timeout(SOON, first).await.unwrap().unwrap().is_err());
    let second = call(&server);
    server.wait_seen(2).await;
    drop(server);
    assert!(timeout(SOON, second).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn a_stream_beyond_the_bound_is_refused() {
    let options = Options::new().max_concurrent_streams(1);
    let server = Server::start_with(options, Step::hang()).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    // Two requests at once, by indexed fields: GET / over http.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let first = b"\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86";
    let second = b"\0\0\x03\x01\x05\0\0\0\x03\x82\x84\x86";
    socket
        .write_all(&[&preface[..], first, second].concat())
        .await
        .unwrap();
    let mut came = Vec::new();
    let refused = b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x07";
    while !came.ends_with(refused) {
        assert_ne!(
            timeout(SOON, socket.read_buf(&mut came))
                .await
                .unwrap()
                .unwrap(),
            0
        );
    }
    assert_eq!(server.seen_count(), 1);
}
