//! Deadlines: the caller's own, the service config's, and tonic's own timers.

use super::server::{Server, Step};
use super::stack::{around, channel, client};
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

/// `grpc-timeout`, in microseconds.
fn micros(call: &Seen) -> u64 {
    let timeout = call.metadata.get("grpc-timeout").expect("a grpc-timeout");
    let micros = timeout.to_str().expect("text").strip_suffix('u');
    let micros = micros.expect("microseconds, from a tenth of a second");
    micros.parse().expect("a number")
}

/// R80
#[tokio::test]
async fn the_earlier_of_both_deadlines_counts() {
    for (of_config, of_caller) in [("0.5s", 3_600_000), ("3600s", 500)] {
        let server = Server::start([Step::Hang]).await;
        let config = config(&format!(r#""timeout":"{of_config}""#));
        let mut client = client(&config, &server);
        let (request, _) = within_ms(item("pie"), of_caller);
        let status = within(client.add(request)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(
            micros(&server.seen()[0]) <= 500_000,
            "the server receives it"
        );
    }
}

/// R14: a back-off that would pass the deadline ends at the deadline.
#[tokio::test]
async fn a_backoff_ends_at_the_deadline_and_tells_what_had_failed() {
    let late = config(
        r#""retryPolicy":{"maxAttempts":5,"initialBackoff":"3600s","maxBackoff":"3600s",
        "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}"#,
    );
    let server = Server::start([Step::Fail(busy())]).await;
    let mut client = client(&late, &server);
    let (request, watch) = within_ms(item("pie"), 500);
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status
            .message()
            .contains("(unambiguous timeout after 1 attempt(s)")
    );
    assert!(status.message().contains("GRPC_UNAVAILABLE"));
    assert_eq!(watch.info().stopped(), Some(StopReason::Deadline));
}

/// R14
#[tokio::test]
async fn a_stream_ends_at_the_deadline_and_is_cancelled_on_the_server() {
    let server = Server::start([Step::HangAfter(2)]).await;
    let mut client = client(&retrying(4), &server);
    let (request, watch) = within_ms(items("pie", 5), 500);
    let answer = within(client.list(request)).await.expect("a stream");
    let mut stream = answer.into_inner();
    for _ in 0..2 {
        assert!(within(stream.message()).await.expect("a message").is_some());
    }
    let status = within(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(watch.info().stopped(), Some(StopReason::Deadline));
    server.seen_when(|seen| seen[0].cancelled).await;
}

/// R14: the time left shrinks with each attempt.
#[tokio::test]
async fn each_attempt_tells_the_server_the_time_that_is_left() {
    let server = Server::start([Step::Fail(busy()), Step::Fail(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let (request, _) = within_ms(item("pie"), 20_000);
    within(client.add(request)).await.expect("an answer");
    let seen = server.seen();
    let left: Vec<_> = seen.iter().map(micros).collect();
    assert!(
        left.is_sorted_by(|a, b| a > b) && left[0] <= 20_000_000,
        "{left:?}"
    );
}

/// A server's own time limit, long before the caller's deadline, is returned unchanged.
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

/// A channel with tonic's time limit for each attempt.
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

/// R14: nothing is sent if the deadline has already passed.
#[tokio::test]
async fn a_deadline_of_zero_sends_nothing() {
    let server = Server::start([]).await;
    let mut client = around(&retrying(4), channel(server.address()));
    let (request, watch) = within_ms(item("pie"), 0);
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!((watch.info().attempts(), server.seen().len()), (0, 0));
}
