//! Requests that are not gRPC; what the server does otherwise, the cases of the program show.

use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Script, Server, Step};

/// Long enough for a slow machine; no passing test waits this long.
const SOON: Duration = Duration::from_secs(20);

/// The answer to a request with this body.
async fn answer(
    send: &mut SendRequest<Bytes>,
    request: http::request::Builder,
    body: &'static [u8],
) -> Response<RecvStream> {
    let request = request.body(()).unwrap();
    let (response, mut stream) = send.send_request(request, false).unwrap();
    stream.send_data(Bytes::from_static(body), true).unwrap();
    timeout(SOON, response).await.unwrap().unwrap()
}

fn call() -> http::request::Builder {
    Request::post("http://server/test.Echo/Call").header("content-type", "application/grpc")
}

#[tokio::test]
async fn what_is_not_grpc_is_refused() {
    let script = Script::new().then(Step::http_status(503));
    let server = Server::start(script).await.unwrap();
    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let plain = answer(&mut send, call(), b"").await;
    assert_eq!(plain.status().as_u16(), 503);
    assert!(!plain.headers().contains_key("grpc-status"));
    let get = answer(&mut send, Request::get("http://server/"), b"").await;
    assert_eq!(get.status().as_u16(), 415);
    assert_eq!(server.seen_count(), 1);
    // A compressed message, one that is too long, and a part of a prefix.
    for (bytes, status) in [
        (&[1, 0, 0, 0, 0][..], "12"),
        (&[0, 255, 0, 0, 0], "8"),
        (&[0], "13"),
    ] {
        let refused = answer(&mut send, call(), bytes).await;
        assert_eq!(refused.headers()["grpc-status"], status);
        assert!(refused.body().is_end_stream(), "it is Trailers-Only");
    }
}
