//! Deadlines, and tonic's own timers.

use super::server::{Server, Step};
use super::stack::{around, client};
use super::*;
use reattempt::StopReason;
use tonic::Code;

fn within_ms<M>(message: M, ms: u64) -> (Request<M>, RetryInfoHandle) {
    let (mut request, watch) = watched(message);
    request.set_timeout(Duration::from_millis(ms));
    (request, watch)
}

/// R14, R48. tonic's channel and server time the same `grpc-timeout` themselves and return
/// CANCELLED; whichever of the three timers fires first, the caller gets DEADLINE_EXCEEDED.
#[tokio::test]
async fn the_callers_deadline_is_deadline_exceeded_every_time() {
    let server = Server::start(vec![Step::Hang; 100]).await;
    let mut client = client(&retrying(4), &server);
    for n in 0..50_u64 {
        let (mut request, watch) = watched(item("pie"));
        // Spread over the ticks of all timers.
        let timeout = Duration::from_micros(5_000 + n * 37);
        request.set_timeout(timeout);
        let began = tokio::time::Instant::now();
        let status = within(client.add(request)).await.unwrap_err();
        assert!(began.elapsed() >= timeout);
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        assert_eq!(watch.info().stopped(), Some(StopReason::Deadline));
    }
    let left = |seen: &Vec<Seen>| seen.iter().all(|call| call.cancelled);
    server.seen_when(left).await;
}

/// A server's own timeout, long before the caller's deadline, is returned unchanged.
#[tokio::test]
async fn a_timeout_of_the_servers_own_passes_unchanged() {
    let server = Server::start([Step::Fail(Status::cancelled("Timeout expired"))]).await;
    let mut client = client(&retrying(4), &server);
    let (request, watch) = within_ms(item("pie"), 3_600_000);
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Cancelled, "Timeout expired")
    );
    assert_eq!(watch.info().stopped(), Some(StopReason::Fatal));
}

/// A channel with tonic's timeout for each attempt.
fn limited(server: &Server) -> tonic::transport::Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()));
    let endpoint = endpoint.expect("an address");
    endpoint.timeout(Duration::from_millis(50)).connect_lazy()
}

/// tonic's `Endpoint::timeout` limits one attempt, which the policy may retry as DEADLINE_EXCEEDED.
#[tokio::test]
async fn a_timeout_of_tonics_endpoint_bounds_one_attempt() {
    let again = config(
        r#""retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s",
        "backoffMultiplier":1,"retryableStatusCodes":["DEADLINE_EXCEEDED"]}"#,
    );
    let server = Server::start([Step::Hang]).await;
    let mut client = around(&again, limited(&server));
    let (request, watch) = watched(item("pie"));
    within(client.add(request)).await.expect("an answer");
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    assert_eq!(failure.and_then(|failure| failure.code), Some(4));
}

/// tonic by itself returns CANCELLED.
#[tokio::test]
async fn a_timeout_of_tonics_endpoint_is_deadline_exceeded() {
    let server = Server::start([Step::Hang]).await;
    let mut client = around(&no_policy(), limited(&server));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Fatal))
    );
}
