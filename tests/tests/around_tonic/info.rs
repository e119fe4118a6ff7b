//! What a caller can read besides the server's response: on success and on timeout.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::{AttemptKind, AttemptOutcome, RetryInfo, ServerPushback, Stage, StopReason};
use tonic::Code;

/// R31, R47: every attempt with code, pushback, delay and tokens, also those before a success.
#[tokio::test]
async fn on_success_the_answer_carries_the_story() {
    let steps = [Step::Fail(pushing_back("3")), Step::Fail(busy())];
    let server = Server::start(steps).await;
    let mut client = client(&retrying(4), &server);
    let (request, watch) = watched(item("pie"));
    let answer = within(client.add(request)).await.expect("an answer");
    let info = answer.extensions().get::<RetryInfo>().expect("its story");
    assert_eq!(info, &watch.info(), "the same by both ways");
    assert_eq!(info.stopped(), Some(StopReason::Committed));
    let [first, second, third] =
        <[_; 3]>::try_from(info.records().collect::<Vec<_>>()).expect("a record of each attempt");
    assert_eq!((first.number, first.kind), (1, AttemptKind::Initial));
    let failure = first.failure.expect("it failed");
    assert_eq!((failure.code, failure.stage), (Some(14), Stage::Response));
    let asked = Duration::from_millis(3);
    assert_eq!(first.pushback, Some(ServerPushback::After(asked)));
    assert_eq!(first.delay, Some(asked));
    assert_eq!(first.milli_tokens, Some(9_000));
    assert_eq!((second.number, second.kind), (2, AttemptKind::Retry));
    assert_eq!(second.pushback, None);
    assert_eq!(second.delay, Some(Duration::from_millis(1)), "half of 2 ms");
    assert_eq!(second.milli_tokens, Some(8_000));
    assert_eq!(third.outcome, AttemptOutcome::Committed);
    assert_eq!(third.stopped, Some(StopReason::Committed));
}

#[tokio::test]
async fn on_a_timeout_the_watch_has_the_attempt_that_was_still_out() {
    let server = Server::start([Step::Fail(busy()), Step::Hang]).await;
    let mut client = client(&retrying(4), &server);
    let (mut request, watch) = watched(item("pie"));
    request.set_timeout(Duration::from_millis(500));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let told = "(ambiguous timeout after 2 attempt(s); reasons: GRPC_UNAVAILABLE";
    assert!(status.message().contains(told), "{status}");
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (2, Some(StopReason::Deadline))
    );
    let last = info.records().next_back().expect("a record");
    assert_eq!((last.number, last.kind), (2, AttemptKind::Retry));
    assert_ne!(last.outcome, AttemptOutcome::Committed);
}
