//! The token bucket (R20 to R26, R46).

use super::*;
use reattempt::StopReason;

/// R20, R21, R26
#[tokio::test]
async fn a_drained_bucket_returns_the_failure_at_once() {
    let config = retrying(5, "0.001s");
    let channel = Channel::new(&config);
    let server = start(busy()).await;
    let first = channel.call(unary(&server)).await;
    assert_eq!(first.info.stopped(), Some(StopReason::Attempts));
    assert_eq!((server.seen_count(), tokens(&config)), (5, Some(5_000)));
    let second = channel.call(unary(&server)).await;
    assert_eq!(second.code, Code::Unavailable);
    assert_eq!(second.info.stopped(), Some(StopReason::Throttled));
    assert_eq!(server.seen_count(), 6);
}

/// R23: the head alone does not count.
#[tokio::test]
async fn a_success_known_only_in_trailers_counts_when_they_have_come() {
    let config = retrying(5, "0.001s");
    let channel = Channel::new(&config);
    let server = start(
        Script::new()
            .then(busy())
            .then(Step::ok("pie"))
            .then(Step::headers_then_status(UNAVAILABLE))
            .otherwise(Step::headers_then_status(INVALID_ARGUMENT)),
    )
    .await;
    let (request, watch) = watched(unary(&server));
    let answer = channel.send(request).await.expect("an answer");
    assert_eq!(tokens(&config), Some(9_000), "one failure, and a head");
    ended(answer, &watch).await;
    assert_eq!(tokens(&config), Some(9_500));
    channel.call(unary(&server)).await;
    assert_eq!(tokens(&config), Some(8_500), "a retryable code in trailers");
    channel.call(unary(&server)).await;
    assert_eq!(tokens(&config), Some(8_500), "another code counts nothing");
}

/// R22, R23: also methods without a policy; a stop counts for any code.
#[tokio::test]
async fn every_call_of_the_channel_counts() {
    let config = no_policy();
    let channel = Channel::new(&config);
    let server = start(
        Script::new()
            .then(Step::trailers_only(INVALID_ARGUMENT, "").pushback("-1"))
            .then(Step::trailers_only(INVALID_ARGUMENT, ""))
            .otherwise(Step::ok("pie")),
    )
    .await;
    for left in [9_000, 9_000, 9_500, 10_000, 10_000] {
        channel.call(unary(&server)).await;
        assert_eq!(tokens(&config), Some(left));
    }
}

/// R46: the first attempt is always sent, a hedge only while more than half of the tokens are left.
#[tokio::test]
async fn a_drained_bucket_holds_hedges_back() {
    let config = hedging(5, "3600s");
    let channel = Channel::new(&config);
    let server = start(busy()).await;
    channel.call(unary(&server)).await;
    assert_eq!((server.seen_count(), tokens(&config)), (5, Some(5_000)));
    let held_back = channel.call(unary(&server)).await;
    assert_eq!(
        (held_back.code, server.seen_count()),
        (Code::Unavailable, 6)
    );
}

/// R46: also a caller whose call succeeded can see that its hedges were refused.
#[tokio::test]
async fn hedges_that_are_held_back_are_seen_of_a_call_that_works() {
    let config = hedging(5, "0s");
    let channel = Channel::new(&config);
    let works = Step::ok("pie").after(Duration::from_millis(300));
    let server = start(Script::new().then_times(5, busy()).otherwise(works)).await;
    channel.call(unary(&server)).await;
    assert_eq!((server.seen_count(), tokens(&config)), (5, Some(5_000)));
    let alone = channel.call(unary(&server)).await;
    assert_eq!((alone.code, server.seen_count()), (Code::Ok, 6));
    assert_eq!(alone.info.refused(StopReason::Throttled), 4);
    assert_eq!(alone.info.records().len(), 0, "no attempt, no record");
}
