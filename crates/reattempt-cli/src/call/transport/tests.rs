//! What the program's answers rely on, whatever keeps the connections.

use std::future::{Future, poll_fn};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use reattempt::{AttemptReporter, CallDeadline};
use reattempt_testbed::grpc::{Server, Step};
use tower::ServiceExt as _;

use super::*;

fn to(server: &impl ToString, version: Version) -> Transport<Full<Bytes>> {
    Transport::new(&server.to_string(), version, None)
}

fn post(server: &impl ToString) -> Request<Full<Bytes>> {
    Request::post(format!("http://{}/s/m", server.to_string()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::default())
        .unwrap()
}

async fn is_pending(call: Pin<&mut impl Future>) -> bool {
    let mut call = Some(call);
    poll_fn(|cx| Poll::Ready(call.take().unwrap().poll(cx).is_pending())).await
}

/// C13: a close that was not read yet costs a new connection, not the request.
#[tokio::test]
async fn a_connection_that_its_server_has_closed_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, until_told) = mpsc::channel();
    let (closed, until_closed) = mpsc::channel();
    let server = std::thread::spawn(move || {
        for _ in 0..20 {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1024]).unwrap();
            socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            until_told.recv().unwrap();
            drop(socket);
            closed.send(()).unwrap();
        }
    });
    let transport = to(&address, Version::Http1);
    for _ in 0..20 {
        let answer = transport.clone().oneshot(post(&address)).await.unwrap();
        answer.into_body().collect().await.unwrap();
        // Until the connection's own task waits for what comes next.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        // The runtime stands still meanwhile.
        close.send(()).unwrap();
        until_closed.recv().unwrap();
    }
    server.join().unwrap();
}

/// A server that answers before it has read the request holds up no later one.
#[tokio::test]
async fn a_connection_that_is_still_sending_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut sockets = Vec::new();
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            // The head, and no more of it.
            let _ = socket.read(&mut [0; 64]).unwrap();
            socket
                .write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            sockets.push(socket);
        }
        // Open until the end.
        sockets
    });
    let transport = to(&address, Version::Http1);
    for _ in 0..2 {
        let large = Full::new(Bytes::from(vec![0; 1 << 24]));
        let request = Request::put(format!("http://{address}/")).body(large);
        let call = transport.clone().oneshot(request.unwrap());
        let answer = tokio::time::timeout(Duration::from_secs(30), call).await;
        let answer = answer.expect("it waits for the first upload").unwrap();
        assert_eq!(answer.status(), 503);
        answer.into_body().collect().await.unwrap();
    }
    drop(server.join().unwrap());
}

/// hyper's queue can keep a request while a sender is left. When it does so cannot be chosen: here
/// the request fails when the last sender was dropped, and not before.
#[tokio::test]
async fn what_waits_in_a_queue_of_no_connection_was_not_sent() {
    let (socket, other_end) = tokio::io::duplex(1024);
    let socket = hyper_util::rt::TokioIo::new(socket);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(socket).await.unwrap();
    drop(other_end);
    let (kept, mut all_dropped) = tokio::sync::mpsc::channel::<()>(1);
    let sent = async {
        assert_eq!(all_dropped.recv().await, None);
        sender.try_send_request(post(&"localhost")).await
    };
    let released = connection::Running::start(connection).then(async || drop(kept));
    let unsent = connection::sending(&AttemptReporter::default(), sent, released).await;
    assert!(unsent.unwrap_err().1.is_some());
}

/// All of them are there before the first is read.
#[tokio::test]
async fn other_tasks_run_between_informational_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (read, until_read) = mpsc::channel();
    let (write, until_told) = mpsc::channel();
    let (written, until_written) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 1024]).unwrap();
        read.send(()).unwrap();
        until_told.recv().unwrap();
        let hints = "HTTP/1.1 103 E\r\na: b\r\n\r\n".repeat(3_000);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        socket.write_all((hints + answer).as_bytes()).unwrap();
        written.send(()).unwrap();
        socket.read(&mut [0; 1]).unwrap()
    });
    let call = tokio::spawn(async move {
        let answer = to(&address, Version::Http1).oneshot(post(&address)).await;
        answer.map(|answer| answer.status())
    });
    while until_read.try_recv() == Err(mpsc::TryRecvError::Empty) {
        tokio::task::yield_now().await;
    }
    write.send(()).unwrap();
    // The runtime stands still meanwhile.
    until_written.recv().unwrap();
    let mut turns = 0;
    while !call.is_finished() {
        tokio::task::yield_now().await;
        turns += 1;
    }
    assert_eq!(call.await.unwrap().unwrap(), 200);
    assert!(turns >= 72_000 / (4 << 10), "{turns}");
    server.join().unwrap();
}

/// They wait for one connection, and the call that dials it is cancelled or at its deadline.
#[tokio::test]
async fn a_call_that_ends_while_it_dials_ends_no_other() {
    for version in [Version::Http2, Version::Grpc] {
        let server = Server::start(Step::ok("")).await.unwrap();
        let transport = to(&server.addr(), version);
        let mut other = pin!(transport.clone().oneshot(post(&server.addr())));
        {
            let mut dials = pin!(transport.oneshot(post(&server.addr())));
            assert!(is_pending(dials.as_mut()).await);
            assert!(is_pending(other.as_mut()).await);
        }
        assert_eq!(other.await.unwrap().status(), 200, "{version:?}");
    }
}

#[tokio::test]
async fn every_call_says_why_it_could_not_connect() {
    // Bound, but it does not listen.
    let address = "127.0.0.1:0".parse().unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let address = socket.local_addr().unwrap();
    for version in [Version::Http1, Version::Http2, Version::Grpc] {
        let transport = to(&address, version);
        let call = || transport.clone().oneshot(post(&address));
        let (one, other) = tokio::join!(call(), call());
        for error in [one.unwrap_err(), other.unwrap_err()] {
            let said = error.to_string();
            assert!(said.contains("Connection refused"), "{version:?}: {said}");
        }
    }
}

/// `grpc-timeout` never exceeds the time that is left when the request is sent.
#[tokio::test]
async fn the_time_that_dialling_takes_counts() {
    let server = Server::start(Step::ok("")).await.unwrap();
    let mut request = post(&server.addr());
    let ends = tokio::time::Instant::now().into_std() + Duration::from_secs(60);
    request
        .context_mut()
        .attach_deadline(CallDeadline::enforced(ends));
    reattempt_grpc::renew_timeout(&mut request);
    let mut call = pin!(to(&server.addr(), Version::Grpc).oneshot(request));
    assert!(is_pending(call.as_mut()).await);
    // The connection is not looked at meanwhile.
    tokio::time::sleep(Duration::from_millis(50)).await;
    call.await.unwrap();
    let seen = server.seen();
    let left = seen[0].header("grpc-timeout").unwrap();
    let micros: u64 = left.strip_suffix('u').unwrap().parse().unwrap();
    assert!(micros <= 59_950_000, "{left}");
}
