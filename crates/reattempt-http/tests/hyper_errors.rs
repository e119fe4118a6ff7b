//! hyper's errors when a connection ends, and that none of them leads to a retry of a request that
//! may have been processed.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reattempt::{Stage, Transparent, Verdict};
use reattempt_http::{ReplayBodyError, TransportFault};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::task::JoinHandle;

type Answer = JoinHandle<hyper::Result<Response<Incoming>>>;

fn order() -> Request<Full<Bytes>> {
    Request::post("http://h/orders")
        .body(Full::new(Bytes::from("one of each")))
        .unwrap()
}

/// A request that the peer has read completely: the peer's side, the connection's task, and the
/// response future.
async fn in_flight() -> (DuplexStream, JoinHandle<()>, Answer) {
    let (client, mut peer) = tokio::io::duplex(4096);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let task = tokio::spawn(async move { drop(connection.await) });
    let answer = tokio::spawn(async move { sender.send_request(order()).await });
    let mut read = Vec::new();
    while !read.ends_with(b"one of each") {
        assert_ne!(peer.read_buf(&mut read).await.unwrap(), 0);
    }
    (peer, task, answer)
}

async fn error(answer: Answer) -> hyper::Error {
    answer.await.unwrap().expect_err("no response arrived")
}

async fn fault(answer: Answer) -> TransportFault {
    TransportFault::of(&error(answer).await)
}

/// hyper distinguishes these only by text.
fn texts(error: &hyper::Error) -> (String, String) {
    let cause = error.source().expect("a cause");
    (error.to_string(), cause.to_string())
}

const GONE: &str = "dispatch task is gone";

fn may_have_been_processed(fault: TransportFault) {
    let verdict = fault.verdict();
    let failure = verdict.failure().unwrap();
    assert!(!failure.safe, "{fault:?}");
    assert_ne!(failure.stage, Stage::Dispatch, "{fault:?}");
    // `IfUnread` is transparent only for a body that was never polled.
    let known = [Transparent::No, Transparent::IfUnread];
    assert!(known.contains(&failure.transparent), "{fault:?}");
}

#[tokio::test]
async fn a_dropped_connection_task_leaves_the_request_ambiguous() {
    let (_peer, task, answer) = in_flight().await;
    task.abort();
    let error = error(answer).await;
    let dropped = "runtime dropped the dispatch task";
    assert_eq!(texts(&error), (GONE.to_owned(), dropped.to_owned()));
    let fault = TransportFault::of(&error);
    assert_eq!(fault, TransportFault::DispatchGone);
    may_have_been_processed(fault);
}

/// A server that refuses a connection with a response, before it has read a request.
#[tokio::test]
async fn what_a_server_writes_unasked_is_a_failed_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let busy = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
        socket.write_all(busy).await.unwrap();
        let mut read = Vec::new();
        while matches!(socket.read_buf(&mut read).await, Ok(1..)) {}
        read
    });
    let connector = tower::service_fn(move |_: http::Uri| {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.readable().await?;
            Ok::<_, io::Error>(TokioIo::new(stream))
        })
    });
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    let error = client.build(connector).request(order()).await.unwrap_err();
    assert!(!error.is_connect(), "hyper-util says no such thing");
    assert_eq!(TransportFault::of(&error), TransportFault::ConnectFailed);
    assert_eq!(server.await.unwrap(), b"", "nothing was sent");
}

/// HTTP/2 with one stream at a time: the first request is in flight, the second waits for the
/// stream, and the third for the second.
#[tokio::test]
async fn a_request_that_waits_for_a_stream_falls_with_its_connection() {
    for goes_away in [true, false] {
        let (client, peer) = tokio::io::duplex(1 << 16);
        let (leave, until_told) = tokio::sync::oneshot::channel::<()>();
        let server = async move {
            let mut server = h2::server::Builder::new()
                .max_concurrent_streams(1)
                .handshake::<_, Bytes>(peer)
                .await
                .unwrap();
            let warm = server.accept().await.unwrap().unwrap();
            let (_, mut respond) = warm;
            respond.send_response(Response::new(()), true).unwrap();
            let _in_flight = server.accept().await.unwrap().unwrap();
            tokio::select! {
                _ = until_told => {}
                _ = server.accept() => panic!("one stream at a time"),
            }
            if goes_away {
                server.graceful_shutdown();
                while server.accept().await.is_some() {}
            }
        };
        tokio::spawn(server);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender.send_request(order()).await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let mut sender = sender.clone();
            answers.push(tokio::spawn(
                async move { sender.send_request(order()).await },
            ));
            // Only tasks of this thread have to run until it waits.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        leave.send(()).unwrap();
        let queued = fault(answers.pop().unwrap()).await;
        assert_eq!(queued, TransportFault::NeverSent);
        let error = error(answers.pop().unwrap()).await;
        let dropped = "runtime dropped the dispatch task";
        assert_eq!(texts(&error), (GONE.to_owned(), dropped.to_owned()));
        let verdict = TransportFault::of(&error).verdict();
        let failure = verdict.failure().unwrap();
        assert_eq!(failure.transparent, Transparent::IfUnread);
        assert!(matches!(verdict, Verdict::Retry(_)));
    }
}

/// A body that panics when it is polled.
#[derive(Debug)]
struct Panics;

impl Body for Panics {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        panic!("the body of a test");
    }
}

#[tokio::test]
async fn a_request_whose_body_panicked_is_never_sent_again() {
    let (client, _peer) = tokio::io::duplex(1 << 16);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::put("http://h/").body(Panics).unwrap();
    let error = sender.send_request(request).await.unwrap_err();
    let panicked = (GONE.to_owned(), "user code panicked".to_owned());
    assert_eq!(texts(&error), panicked);
    let fault = TransportFault::of(&error);
    assert_eq!(fault, TransportFault::RequestFailed);
    assert!(matches!(fault.verdict(), Verdict::Fatal(_)));
}

#[tokio::test]
async fn a_peer_that_closes_or_sends_junk_has_had_the_request() {
    for junk in [&b""[..], b"HTTP/1.1 20", b"\0\0\0\x04\x08junk\r\n\r\n"] {
        let (mut peer, _task, answer) = in_flight().await;
        peer.write_all(junk).await.unwrap();
        drop(peer);
        may_have_been_processed(fault(answer).await);
    }
}

#[tokio::test]
async fn a_request_for_a_connection_that_is_gone_was_never_sent() {
    let (client, _peer) = tokio::io::duplex(4096);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    drop(connection);
    let answer = tokio::spawn(async move { sender.send_request(order()).await });
    assert_eq!(fault(answer).await, TransportFault::NeverSent);
}

#[tokio::test]
async fn a_request_queued_behind_another_was_never_sent() {
    let (client, peer) = tokio::io::duplex(4096);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    // Queued, but the connection task never ran.
    let queued = sender.send_request(order());
    drop((peer, connection));
    let error = queued.await.unwrap_err();
    assert_eq!(TransportFault::of(&error), TransportFault::NeverSent);
}

/// The server has processed it; that its response is too large for the client is not a refusal.
#[tokio::test]
async fn an_answer_whose_head_is_too_large_is_no_refused_stream() {
    let (client, peer) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let mut server = h2::server::handshake(peer).await.unwrap();
        while let Some(Ok((_, mut respond))) = server.accept().await {
            let head = Response::builder().header("x", "x".repeat(9000));
            drop(respond.send_response(head.body(()).unwrap(), true));
        }
    });
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(1000)
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let answer = tokio::spawn(async move { sender.send_request(order()).await });
    may_have_been_processed(fault(answer).await);
}

/// A connection that ends with an error of connecting. Linux keeps the error of a firewall that
/// rejects packets, or a timeout, and returns it when its retransmissions run out.
struct Rejected(DuplexStream, io::ErrorKind);

impl AsyncRead for Rejected {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(cx, buffer);
        match polled {
            Poll::Ready(Ok(())) if buffer.filled().len() == before => {
                Poll::Ready(Err(self.1.into()))
            }
            polled => polled,
        }
    }
}

impl AsyncWrite for Rejected {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_refused_connection_that_had_the_request_is_in_flight() {
    use io::ErrorKind::{ConnectionRefused, TimedOut};
    for (http2, kind) in [
        (false, ConnectionRefused),
        (true, ConnectionRefused),
        (false, TimedOut),
        (true, TimedOut),
    ] {
        let (client, mut peer) = tokio::io::duplex(1 << 16);
        let io = TokioIo::new(Rejected(client, kind));
        let answer = if http2 {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            tokio::spawn(async move { sender.send_request(order()).await })
        } else {
            let (mut sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            tokio::spawn(async move { sender.send_request(order()).await })
        };
        let mut read = Vec::new();
        while !read.ends_with(b"one of each") {
            assert_ne!(peer.read_buf(&mut read).await.unwrap(), 0);
        }
        drop(peer);
        let fault = fault(answer).await;
        assert_eq!(fault, TransportFault::ConnectionReset, "http2: {http2}");
        may_have_been_processed(fault);
    }
}

/// gRPC, Keepalive: an expired ping ends all calls of its connection.
#[tokio::test(start_paused = true)]
async fn a_connection_with_an_unanswered_ping_is_broken() {
    let (client, _peer) = tokio::io::duplex(1 << 16);
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(20))
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let answer = tokio::spawn(async move { sender.send_request(order()).await });
    let fault = fault(answer).await;
    assert_eq!(fault, TransportFault::ConnectionReset);
    may_have_been_processed(fault);
}

/// A body that fails when it is polled.
struct Fails(Option<ReplayBodyError>);

impl Body for Fails {
    type Data = Bytes;
    type Error = ReplayBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

#[tokio::test]
async fn a_body_that_fails_is_not_one_that_was_cut_off() {
    let own = io::Error::other("the message is too large");
    let cases = [
        (
            ReplayBodyError::Body(Arc::new(own)),
            TransportFault::RequestFailed,
        ),
        (ReplayBodyError::Abandoned, TransportFault::Abandoned),
    ];
    for (error, expected) in cases {
        let (client, _peer) = tokio::io::duplex(1 << 16);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = Request::put("http://h/").body(Fails(Some(error)));
        let error = sender.send_request(request.unwrap()).await.unwrap_err();
        assert_eq!(TransportFault::of(&error), expected);
    }
}

/// An I/O error without a kind is a connection error nevertheless.
#[tokio::test]
async fn a_frame_that_is_cut_off_is_a_broken_connection() {
    let (client, mut peer) = tokio::io::duplex(1 << 16);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let answer = tokio::spawn(async move { sender.send_request(order()).await });
    let mut read = Vec::new();
    while !read.ends_with(b"one of each") {
        assert_ne!(peer.read_buf(&mut read).await.unwrap(), 0);
    }
    // SETTINGS, and a truncated HEADERS frame.
    peer.write_all(b"\0\0\0\x04\0\0\0\0\0\0\0\x09\x01\x04\0\0\0\x01half")
        .await
        .unwrap();
    drop(peer);
    let fault = fault(answer).await;
    assert_eq!(fault, TransportFault::ConnectionReset);
    may_have_been_processed(fault);
}
