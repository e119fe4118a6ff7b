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
use tonic::Code;
use tonic::transport::Endpoint;

/// Bound but not listening: connections are refused, and no other process gets the port.
pub(crate) fn nobody() -> (TcpSocket, std::net::SocketAddr) {
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

/// R16, R62: fail fast, without a policy and without `waitForReady`.
#[tokio::test]
async fn a_refused_connection_without_a_policy_is_unavailable_at_once() {
    let (_reserved, address) = nobody();
    let config = no_policy();
    let mut client = around(&config, channel(address));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Fatal))
    );
    let failure = last_failure(&watch);
    assert_eq!((failure.code, failure.stage), (Some(14), Stage::Dispatch));
    assert_eq!(tokens(&config), 10_000, "no policy calls it retryable");
}

/// R16: retried by the policy, counted in attempts and tokens.
#[tokio::test]
async fn a_refused_connection_goes_by_the_policy() {
    let (_reserved, address) = nobody();
    let config = retrying(3);
    let mut client = around(&config, channel(address));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let info = watch.info();
    assert_eq!((info.attempts(), info.retries()), (3, 2));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(tokens(&config), 7_000);
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

/// R16: a call that waits is one attempt, and is sent once the server is up.
#[tokio::test]
async fn a_call_that_waits_finds_a_server_that_comes_up_later() {
    let (_reserved, address) = nobody();
    let waits = config(r#""timeout":"25s","waitForReady":true"#);
    let mut client = around(&waits, channel(address));
    let (request, watch) = watched(item("pie"));
    let up = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        Server::start_at(address, []).await
    };
    let (answer, server) = within(async { tokio::join!(client.add(request), up) }).await;
    assert_eq!(answer.expect("an answer").get_ref().names, ["pie"]);
    assert_eq!(previous(&server.seen()), [None]);
    assert_eq!(watch.info().attempts(), 1);
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

/// R14, R16: the deadline ends the wait, and nothing was sent.
#[tokio::test]
async fn a_call_that_waits_for_a_server_in_vain_ends_at_the_deadline() {
    let (_reserved, address) = nobody();
    let waits = config(r#""timeout":"0.1s","waitForReady":true"#);
    let mut client = around(&waits, channel(address));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status.message().contains("(unambiguous timeout"),
        "{status}"
    );
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Deadline))
    );
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
        let server = ScriptedServer::start(step.clone()).await.expect("a server");
        let mut client = around(&no_policy(), channel(server.addr()));
        let (request, watch) = watched(item("pie"));
        let status = within(client.add(request)).await.unwrap_err();
        assert_eq!(status.code(), code, "{step:?}: {status}");
        assert_eq!(last_failure(&watch).code, Some(code as i32), "{step:?}");
        assert!(status.source().is_some(), "{step:?}");
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

/// The connection breaks during a call: UNAVAILABLE in flight, which this policy retries.
#[tokio::test]
async fn a_call_in_flight_on_a_dying_server_goes_by_the_policy() {
    let mut server = Server::start([Step::Hang]).await;
    let address = server.address();
    let patient = config(
        r#""retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s",
        "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}"#,
    );
    let mut client = client(&patient, &server);
    let (request, watch) = watched(item("pie"));
    let dies = async {
        server.seen_when(|seen| seen.len() == 1).await;
        server.kill();
        Server::start_at(address, []).await
    };
    let (answer, server) = within(async { tokio::join!(client.add(request), dies) }).await;
    answer.expect("an answer");
    assert_eq!(previous(&server.seen()), [Some("1")]);
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    let failure = failure.expect("it failed");
    assert_eq!((failure.code, failure.stage), (Some(14), Stage::InFlight));
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
