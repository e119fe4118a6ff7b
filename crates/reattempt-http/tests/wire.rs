//! What hyper-util says of HTTP/2 streams and connections that end; `pooled_errors` has HTTP/1.1.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::{AttemptKind, NextAttempt, Replay};
use reattempt_http::body::ReplayBody;
use reattempt_http::{TransportError, TransportFault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one connection, driven by `serve`.
async fn server<F, Fut>(serve: F) -> SocketAddr
where
    F: FnOnce(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    address
}

async fn fault(address: SocketAddr) -> TransportFault {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let request = Request::put(format!("http://{address}/"))
        .body(Full::from("body"))
        .unwrap();
    let answer = tokio::time::timeout(PATIENCE, client.request(request))
        .await
        .unwrap();
    answer.expect_err("the server never answers").fault()
}

async fn read_to_end(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = (&mut stream).take(1 << 20).read_to_end(&mut rest).await;
}

async fn h2_server_that_resets(reason: h2::Reason) -> SocketAddr {
    server(move |stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_request, mut respond))) = connection.accept().await {
            respond.send_reset(reason);
        }
    })
    .await
}

#[tokio::test]
async fn a_refused_stream_is_known_from_other_resets() {
    let refuses = h2_server_that_resets(h2::Reason::REFUSED_STREAM).await;
    assert_eq!(fault(refuses).await, TransportFault::StreamRefused);
    let cancels = h2_server_that_resets(h2::Reason::CANCEL).await;
    assert_eq!(fault(cancels).await, TransportFault::StreamReset(8));
}

/// R51: what hyper on HTTP/2 makes of a copy that another one has overtaken.
#[tokio::test]
async fn a_body_that_stops_by_itself_is_no_reset_of_the_servers() {
    let address = server(|mut stream| async move {
        stream
            .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        read_to_end(stream).await;
    });
    let ahead: ReplayBody<Full<Bytes>> = ReplayBody::new(Full::from("body"));
    let next = NextAttempt::new(1, AttemptKind::Initial, None);
    let behind = ahead.replay(&next).unwrap();
    ahead.commit();
    let client: Client<HttpConnector, ReplayBody<Full<Bytes>>> =
        Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
    let request = Request::put(format!("http://{}/", address.await))
        .body(behind)
        .unwrap();
    let answer = tokio::time::timeout(PATIENCE, client.request(request)).await;
    let error = answer.unwrap().expect_err("the server never answers");
    assert_eq!(error.fault(), TransportFault::Abandoned);
}

#[tokio::test]
async fn a_goaway_that_leaves_the_stream_out_refused_it() {
    let address = server(|mut stream| async move {
        stream
            .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        // Waits for the request itself: preface and settings arrive first.
        let mut got = Vec::new();
        while !got.windows(4).any(|window| window == b"body") {
            let mut some = [0; 4096];
            let n = stream.read(&mut some).await.unwrap();
            assert!(n > 0);
            got.extend_from_slice(&some[..n]);
        }
        // GOAWAY, last stream 0, NO_ERROR.
        let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        stream.write_all(&goaway).await.unwrap();
        read_to_end(stream).await;
    });
    assert_eq!(fault(address.await).await, TransportFault::PastGoaway);
}
