//! The errors of clients with connection pools (reqwest, hyper-util) by stage, against plain
//! sockets on loopback.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use reattempt::{Failure, Stage};
use reattempt_http::TransportFault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;
use tower::util::AndThenLayer;

type BoxError = Box<dyn Error + Send + Sync>;

const PATIENCE: Duration = Duration::from_secs(20);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Answers every request on every connection with the next of these; after the last one, the
/// connection is closed.
async fn server(answers: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, answers));
        }
    });
    address
}

async fn answer(mut socket: TcpStream, answers: &[&[u8]]) -> std::io::Result<()> {
    let mut answers = answers.iter();
    loop {
        let mut read = Vec::new();
        while !read.ends_with(b"apples") {
            if socket.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        match answers.next() {
            // This response is truncated by the end of the connection.
            Some(last) if last.ends_with(b"...") => return socket.write_all(last).await,
            Some(answer) => socket.write_all(answer).await?,
            None => return Ok(()),
        }
    }
}

/// Sends this many calls, one after another, and returns the last one's error.
trait Calls {
    async fn call(&self, uri: &str) -> Result<(), BoxError>;

    async fn last_error(&self, address: SocketAddr, times: usize) -> TransportFault {
        let uri = format!("http://{address}/");
        for _ in 1..times {
            self.call(&uri).await.unwrap();
            // Time for the connection to return to the pool.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let ended = tokio::time::timeout(PATIENCE, self.call(&uri)).await;
        TransportFault::of(&*ended.unwrap().expect_err("it fails"))
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Calls for Client<C, Full<Bytes>> {
    async fn call(&self, uri: &str) -> Result<(), BoxError> {
        let request = Request::post(uri).body(Full::from("apples"))?;
        self.request(request).await?.into_body().collect().await?;
        Ok(())
    }
}

impl Calls for reqwest::Client {
    async fn call(&self, uri: &str) -> Result<(), BoxError> {
        let request = self.request(Method::POST, uri).body("apples");
        request.send().await?.bytes().await?;
        Ok(())
    }
}

fn hyper_util() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

fn of_reqwest() -> reqwest::ClientBuilder {
    reqwest::Client::builder().retry(reqwest::retry::never())
}

fn failure(fault: TransportFault) -> Failure {
    *fault.verdict().failure().unwrap()
}

/// With both clients.
async fn both(address: SocketAddr, times: usize) -> [TransportFault; 2] {
    [
        hyper_util().last_error(address, times).await,
        of_reqwest()
            .build()
            .unwrap()
            .last_error(address, times)
            .await,
    ]
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_carried_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = listener.local_addr().unwrap();
    drop(listener);
    for fault in both(refused, 1).await {
        assert_eq!(fault, TransportFault::ConnectFailed);
        assert!(failure(fault).safe && failure(fault).stage == Stage::Dispatch);
    }

    // No connection is accepted: the backlog is full.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _first = TcpStream::connect(address).await.unwrap();
    let short = Duration::from_millis(100);
    let client = of_reqwest().connect_timeout(short).build().unwrap();
    let fault = client.last_error(address, 1).await;
    assert_eq!(fault, TransportFault::ConnectFailed, "its own timeout");
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(short));
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let fault = client.last_error(address, 1).await;
    assert_eq!(fault, TransportFault::ConnectFailed, "its own timeout");
}

/// The server ends each connection as soon as it is made, and the client sees that before it has
/// handed its request over.
#[tokio::test]
async fn a_new_connection_that_ends_at_once_carried_nothing() {
    for is_reset in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(Semaphore::new(0));
        let ends = Arc::clone(&ended);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if is_reset {
                    socket.set_zero_linger().unwrap();
                }
                drop(socket);
                ends.add_permits(1);
            }
        });
        let connector = HttpConnector::new().and_then({
            let ended = Arc::clone(&ended);
            // Boxed, because the client wants a future that is `Unpin`.
            move |connection| {
                Box::pin(async move {
                    ended.acquire_owned().await.unwrap().forget();
                    Ok::<_, BoxError>(connection)
                })
            }
        });
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let of_hyper_util = client.last_error(address, 1).await;
        let waits = AndThenLayer::new(move |connection| async move {
            ended.acquire_owned().await.unwrap().forget();
            Ok::<_, BoxError>(connection)
        });
        let client = of_reqwest().connector_layer(waits).build().unwrap();
        let of_reqwest = client.last_error(address, 1).await;
        for fault in [of_hyper_util, of_reqwest] {
            assert_eq!(fault, TransportFault::ConnectFailed, "reset: {is_reset}");
            assert!(failure(fault).safe && failure(fault).stage == Stage::Dispatch);
        }
    }
}

/// The server has read all of it: neither the first request of a connection nor a later one is
/// known to be unprocessed.
#[tokio::test]
async fn a_connection_closed_before_the_answer_was_in_flight() {
    for (answers, times) in [(&[][..], 1), (&[OK][..], 2), (&[OK, OK][..], 3)] {
        let address = server(answers).await;
        for fault in both(address, times).await {
            let in_flight = [
                TransportFault::ConnectionClosed,
                TransportFault::ConnectionReset,
            ];
            assert!(in_flight.contains(&fault), "{times}: {fault:?}");
            assert!(!failure(fault).safe && failure(fault).stage == Stage::InFlight);
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_in_its_head_or_breaks_the_protocol() {
    let cut = server(&[b"HTTP/1.1 200 OK\r\ncontent-..."]).await;
    for fault in both(cut, 1).await {
        assert_eq!(fault, TransportFault::ConnectionClosed);
    }
    let junk = server(&[b"220 smtp.example ready\r\n\r\n"]).await;
    for fault in both(junk, 1).await {
        assert_eq!(fault, TransportFault::Protocol);
        assert!(!failure(fault).safe);
    }
}

/// The caller already has the head, so it is not retried; but the fault is never "unknown".
#[tokio::test]
async fn an_answers_body_that_breaks_off_says_how() {
    for (answer, faults) in [
        (
            &b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc..."[..],
            [TransportFault::ConnectionClosed],
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nabc...",
            [TransportFault::ConnectionClosed],
        ),
    ] {
        let address = server(Box::leak(Box::new([answer]))).await;
        for fault in both(address, 1).await {
            assert!(faults.contains(&fault), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn reqwests_own_timeout_redirects_and_builder() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let short = Duration::from_millis(100);
    let client = of_reqwest().timeout(short).build().unwrap();
    let fault = client.last_error(silent.local_addr().unwrap(), 1).await;
    assert_eq!(fault, TransportFault::Timeout);
    assert_eq!(failure(fault).stage, Stage::InFlight);

    let round = b"HTTP/1.1 307 Round\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";
    let address = server(Box::leak(Box::new([&round[..]; 20]))).await;
    let client = of_reqwest().build().unwrap();
    let fault = client.last_error(address, 1).await;
    assert_eq!(
        fault,
        TransportFault::RequestFailed,
        "it would be retried again"
    );

    let error = client.get("no scheme").send().await.unwrap_err();
    assert_eq!(TransportFault::of(&error), TransportFault::RequestFailed);
}

/// Nothing was sent, and nothing is wrong with a server.
#[tokio::test]
async fn a_request_that_the_client_refuses_is_the_requests_fault() {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let refused = async |request: http::request::Builder| {
        let request = request.body(Full::default()).unwrap();
        let error = client.request(request).await.unwrap_err();
        (error.to_string(), TransportFault::of(&error))
    };
    for (request, text) in [
        (Request::get("/path"), "UserAbsoluteUriRequired"),
        (
            Request::get("http://h/").version(http::Version::HTTP_3),
            "UserUnsupportedVersion",
        ),
        (
            Request::connect("h:80").version(http::Version::HTTP_10),
            "UserUnsupportedRequestMethod",
        ),
    ] {
        let found = refused(request).await;
        let text = format!("client error ({text})");
        assert_eq!(found, (text, TransportFault::RequestFailed));
    }
}
