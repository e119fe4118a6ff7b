//! Each step, observed by a client on plain HTTP/2 frames.

mod answers;
mod failures;

use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::message::{Messages, frame_message};
use super::{ErrorCode, Script, Server, Step};

/// Long enough for a slow machine; no passing test waits this long.
const SOON: Duration = Duration::from_secs(20);
/// How long a test checks that a client receives nothing.
const A_WHILE: Duration = Duration::from_millis(60);

struct Caller {
    send: SendRequest<Bytes>,
}

/// The result of a call.
#[derive(Debug, Default)]
struct Outcome {
    initial: HeaderMap,
    messages: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    error: Option<h2::Error>,
}

impl Outcome {
    /// The status, from trailers or from the headers of a Trailers-Only response.
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
        // A broken connection ends this with an error; the calls report it as well.
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
