//! Connections that cannot be made, that break, and that come back.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use super::server::{Server, Step};
use super::stack::{around, channel, client};
use super::*;
use hyper_util::rt::TokioIo;
use reattempt::{Failure, Stage, StopReason};
use reattempt_testbed::grpc::{ErrorCode, Server as ScriptedServer, Step as Scripted};
use tokio::net::{TcpSocket, TcpStream};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

/// Bound but not listening: connections are refused, and no other process gets the port.
pub(crate) fn refused_port() -> (TcpSocket, std::net::SocketAddr) {
    let reserved = TcpSocket::new_v4().expect("a socket");
    reserved.set_reuseaddr(true).expect("an option");
    reserved
        .bind(([127, 0, 0, 1], 0).into())
        .expect("a free port");
    let address = reserved.local_addr().expect("its address");
    (reserved, address)
}

fn last_failure(watch: &RetryInfoHandle) -> Failure {
    let info = watch.info();
    let last = info.records().next_back().expect("a record");
    last.failure.expect("it failed")
}

/// Any connector error: here a connect timeout, which by itself could also mean the loss of an
/// existing connection.
#[tokio::test]
async fn every_fault_of_a_connector_is_in_the_stage_of_dispatch() {
    let endpoint = Endpoint::from_static("http://nobody");
    let connector = tower::service_fn(|_| async {
        Err::<TokioIo<TcpStream>, _>(std::io::Error::from(ErrorKind::TimedOut))
    });
    let mut client = around(
        &no_policy(),
        endpoint.connect_with_connector_lazy(connector),
    );
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let info = watch.info();
    let stages = info
        .records()
        .filter_map(|record| Some(record.failure?.stage));
    assert!(stages.eq(vec![Stage::Dispatch; info.records().len()]));
}

/// R16: also for errors that do not show by themselves that there is no connection.
#[tokio::test]
async fn a_call_that_waits_waits_out_every_fault_of_a_connector() {
    let server = Server::start([]).await;
    let address = server.address();
    let faults = [
        ErrorKind::ConnectionRefused,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::TimedOut,
        ErrorKind::ConnectionReset,
        ErrorKind::PermissionDenied,
        ErrorKind::Other,
    ];
    let faults = Arc::new(Mutex::new(faults.to_vec()));
    let connector = tower::service_fn(move |_| {
        let fault = faults.lock().expect("no panic").pop();
        async move {
            match fault {
                Some(fault) => Err(std::io::Error::from(fault)),
                None => TcpStream::connect(address).await.map(TokioIo::new),
            }
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let waits = config(r#""timeout":"25s","waitForReady":true"#);
    let mut client = around(&waits, endpoint.connect_with_connector_lazy(connector));
    let (request, watch) = watched(item("pie"));
    within(client.add(request)).await.expect("an answer");
    assert_eq!(watch.info().attempts(), 1);
}

/// Calls a server that does this. The status and the record of the attempt have this code.
async fn fails_by(step: &Scripted, code: Code) -> Status {
    let server = ScriptedServer::start(step.clone()).await.expect("a server");
    let mut client = around(&no_policy(), channel(server.addr()));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), code, "{step:?}: {status}");
    assert_eq!(last_failure(&watch).code, Some(code as i32), "{step:?}");
    status
}

/// The caller's status has the code of the records, and the transport error as its source.
#[tokio::test]
async fn the_status_of_a_lost_call_has_the_code_of_the_records() {
    for (step, code) in [
        (Scripted::close(), Code::Unavailable),
        (Scripted::go_away(), Code::Unavailable),
        (Scripted::refuse_stream(), Code::Unavailable),
        (
            Scripted::reset(ErrorCode::ENHANCE_YOUR_CALM),
            Code::ResourceExhausted,
        ),
        (Scripted::reset(ErrorCode::INTERNAL_ERROR), Code::Internal),
    ] {
        let status = fails_by(&step, code).await;
        assert!(status.source().is_some(), "{step:?}");
    }
}

/// R10, R71: a proxy's page has the code that the policy saw, with the page's headers.
#[tokio::test]
async fn an_http_page_has_the_code_of_the_records_and_its_headers() {
    let page = Scripted::http_status(503)
        .initial("content-type", "text/html")
        .initial("retry-after", "7")
        .data("<html>Service Unavailable</html>");
    let server = ScriptedServer::start(page).await.expect("a server");
    let mut client = around(&retrying(2), channel(server.addr()));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(
        status.message(),
        "HTTP 503 Service Unavailable without grpc-status (text/html)"
    );
    let metadata = |name| status.metadata().get(name).expect(name);
    assert_eq!(metadata("retry-after"), "7");
    assert_eq!(metadata("grpc-previous-rpc-attempts"), "1");
    assert_eq!((watch.info().attempts(), server.seen_count()), (2, 2));
}

/// R23: what is no success in the records is none for the caller.
#[tokio::test]
async fn a_response_without_a_status_has_the_code_of_the_records() {
    for (step, code) in [
        (
            Scripted::http_status(200)
                .initial("content-type", "application/grpc")
                .data(&[0; 5][..]),
            Code::Internal,
        ),
        (
            Scripted::http_status(200).initial("content-type", "application/grpc"),
            Code::Unknown,
        ),
        (Scripted::ok("").end_without_status(), Code::Unknown),
    ] {
        fails_by(&step, code).await;
    }
}

/// A channel outlives its server: the next call reaches the server that replaced it.
#[tokio::test]
async fn a_server_that_was_restarted_between_two_calls_is_found_again() {
    let mut server = Server::start([]).await;
    let address = server.address();
    let mut client = client(&retrying(4), &server);
    within(client.add(item("pie"))).await.expect("an answer");
    server.kill();
    let server = Server::start_at(address, []).await;
    within(client.add(item("pie"))).await.expect("an answer");
    assert_eq!(server.seen().len(), 1);
}

/// R61: a server that drains (GOAWAY) finishes its calls; later calls go to its replacement.
#[tokio::test]
async fn a_draining_server_finishes_its_calls_and_gets_no_more() {
    let mut server = Server::start([]).await;
    let mut client = client(&retrying(4), &server);
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let answer = within(client.swap(stream)).await.expect("a stream");
    let mut stream = answer.into_inner();
    server.drain();
    for name in ["apples", "pears"] {
        sender.send(item(name)).await.expect("the stream is read");
        let back = within(stream.message()).await.expect("a message");
        assert_eq!(back, Some(item(name)));
    }
    drop(sender);
    assert_eq!(within(stream.message()).await.expect("the end"), None);
    // The old server exits with its last call.
    let address = server.address();
    server.wait_gone().await;
    let server = Server::start_at(address, []).await;
    within(client.add(item("pie"))).await.expect("an answer");
    assert_eq!(server.seen().len(), 1);
}

/// R22: a stream that fails is UNAVAILABLE for the caller and the bucket.
#[tokio::test]
async fn a_server_that_dies_during_a_stream_counts_as_unavailable() {
    let mut server = Server::start([Step::HangAfter(1)]).await;
    let config = retrying(4);
    let mut client = client(&config, &server);
    let (request, watch) = watched(items("pie", 3));
    let answer = within(client.list(request)).await.expect("a stream");
    let mut stream = answer.into_inner();
    assert!(within(stream.message()).await.expect("a message").is_some());
    server.kill();
    let status = within(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Committed))
    );
    assert_eq!(last_failure(&watch).code, Some(14));
    assert_eq!(tokens(&config), 9_000);
}
