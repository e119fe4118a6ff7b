//! What no case of the program shows: bounds, large bodies, bytes of a client, lost connections.

mod answers;
mod bounds;
mod failures;
mod lifetime;

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ErrorCode, Options, Protocol, Script, Server, Step};

type BoxError = Box<dyn Error + Send + Sync>;

/// Long enough for a slow machine; no passing test waits this long.
const SOON: Duration = Duration::from_secs(20);

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
        let body = timeout(SOON, body.collect()).await??.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    async fn fail(&self, server: &Server) -> BoxError {
        let sent = self.send(server, "/").await;
        sent.expect_err("the call succeeded")
    }
}

/// The h2 error at the end of the source chain.
fn h2_error<'a>(error: &'a (dyn Error + 'static)) -> &'a h2::Error {
    let mut error = error;
    loop {
        if let Some(found) = error.downcast_ref() {
            return found;
        }
        error = error.source().expect("no h2 error in the chain");
    }
}

/// What a server answers to these bytes before it closes or resets the connection.
async fn answer_to(server: &Server, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut came = Vec::new();
    let read = timeout(SOON, socket.read_to_end(&mut came)).await.unwrap();
    read.map(|_| came)
}

async fn both(script: impl Fn() -> Script, test: impl AsyncFn(Server, Caller)) {
    for http2 in [false, true] {
        let server = Server::start(script()).await.unwrap();
        let ended = timeout(SOON * 2, test(server, Caller::new(http2))).await;
        ended.expect("the test timed out");
    }
}
