//! The rules of RFC 0049 that the retry machine implements.

use std::time::Duration;

use super::model::{attempts, bucket};
use super::script::{attempt, every_attempt_from, ms};
use super::simulator::{End, Story, call};
use crate::failure::reason::{
    KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT,
    SOCKET_NOT_AVAILABLE, UNKNOWN,
};
use crate::policy::strategy::{BestEffort, NeverRetry, RetryOnce, StrategyError};
use crate::{Decision, OnDeadline, RetryStrategy, RetryThrottle, RetryView, Stage, StopReason};

/// A strategy whose deferred decision returns this result.
#[derive(Debug)]
struct Asks(fn() -> Result<Option<Duration>, StrategyError>);

impl RetryStrategy for Asks {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Defer(Box::pin(std::future::ready((self.0)())))
    }
}

/// C2
#[test]
fn unknown_is_retried_only_for_an_idempotent_request() {
    let script = [attempt(1).fails(UNKNOWN)];
    assert_eq!(
        call().retried(BestEffort::new(), &script).end,
        End::Worked(2)
    );
    let once = call().not_idempotent().retried(BestEffort::new(), &script);
    assert_eq!(once.end, End::Failed(1));
    assert_eq!(once.info.stopped(), Some(StopReason::NotIdempotent));
}

/// C5 C6
#[test]
fn an_always_retry_reason_bypasses_fail_fast() {
    let script = [every_attempt_from(1).fails(KV_NOT_MY_VBUCKET), attempt(8)];
    let story = call().not_idempotent().retried(NeverRetry, &script);
    assert_eq!(story.end, End::Worked(8));
    assert_eq!(story.sent_ms(), [0, 1, 11, 61, 161, 661, 1661, 2661]);
}

/// C6 C7
#[test]
fn a_reason_that_always_retries_still_ends_at_the_deadline() {
    let script = [every_attempt_from(1).fails(KV_NOT_MY_VBUCKET)];
    let story = call().within(100).retried(NeverRetry, &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(100)));
    assert_eq!(story.sent_ms(), [0, 1, 11, 61]);
    assert_eq!(story.info.stopped(), Some(StopReason::Deadline));
}

/// C6
#[test]
fn an_always_retry_reason_is_neither_throttled_nor_counted() {
    let empty = bucket(2, 2);
    let script = [attempt(1).fails(KV_NOT_MY_VBUCKET)];
    assert_eq!(
        call().throttled_by(&empty).retried(NeverRetry, &script).end,
        End::Worked(2)
    );
    assert_eq!(empty.milli_tokens(), Some(100), "only the success counted");
}

/// C7
#[test]
fn a_delay_that_does_not_fit_waits_for_the_deadline() {
    let script = [every_attempt_from(1).fails(KV_TEMPORARY_FAILURE)];
    let capped = attempts(9).on_deadline(OnDeadline::Cap);
    let story = call().within(30).retried(capped, &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(30)));
    assert_eq!(story.sent_ms(), [0, 10]);
    let last = story.info.records().last().unwrap();
    assert_eq!(
        (last.stopped, last.delay),
        (Some(StopReason::Deadline), Some(ms(20)))
    );
}

/// C7
#[test]
fn giving_up_returns_the_failure_if_the_delay_does_not_fit() {
    let script = [every_attempt_from(1).fails(KV_TEMPORARY_FAILURE)];
    let gives_up = attempts(9).on_deadline(OnDeadline::GiveUp);
    let story = call().within(30).retried(gives_up, &script);
    assert_eq!((story.end, story.at), (End::Failed(2), ms(10)));
}

/// C7: RFC 0049 caps whatever the strategy, unless that was told to give up; other protocols give
/// up, unless it was told to cap.
#[test]
fn the_protocol_decides_where_the_strategy_leaves_it_open() {
    let script = [every_attempt_from(1).fails(KV_TEMPORARY_FAILURE)];
    let (timed_out, failed) = ((End::TimedOut, ms(30)), (End::Failed(2), ms(10)));
    let end = |story: Story| (story.end, story.at);
    let (usual, couchbase) = (call().within(30), call().within(30).capped());
    assert_eq!(end(usual.retried(attempts(9), &script)), failed);
    assert_eq!(end(couchbase.retried(attempts(9), &script)), timed_out);
    for protocol in [usual, couchbase] {
        let told = |choice| attempts(9).on_deadline(choice);
        let gives_up = protocol.retried(told(OnDeadline::GiveUp), &script);
        assert_eq!(end(gives_up), failed);
        let caps = protocol.retried(told(OnDeadline::Cap), &script);
        assert_eq!(end(caps), timed_out);
    }
}

/// C7
#[test]
fn a_limit_that_is_not_enforced_gives_up() {
    let script = [every_attempt_from(1).fails(KV_TEMPORARY_FAILURE)];
    let capped = attempts(9).on_deadline(OnDeadline::Cap);
    let story = call().asked_within(30).retried(capped, &script);
    assert_eq!((story.end, story.at), (End::Failed(2), ms(10)));
    assert_eq!(story.info.stopped(), Some(StopReason::Deadline));
}

/// C7
#[test]
fn a_service_that_is_ready_too_late_is_not_called() {
    let script = [attempt(1).fails(KV_TEMPORARY_FAILURE).ready_after(30)];
    let asked = call().asked_within(30).retried(attempts(9), &script);
    assert_eq!(asked.end, End::Failed(1));
    assert_eq!(asked.info.stopped(), Some(StopReason::Deadline));
    let enforced = call().within(30).retried(attempts(9), &script);
    assert_eq!((enforced.end, enforced.at), (End::TimedOut, ms(30)));
}

/// C8
#[test]
fn no_delay_is_a_retry_and_not_a_stop() {
    let script = [attempt(1).fails(KV_LOCKED)];
    let story = call().retried(RetryOnce, &script);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(2), vec![0, 0]));
    assert_eq!(call().retried(NeverRetry, &script).end, End::Failed(1));
}

/// C9
#[test]
fn a_decision_may_be_made_elsewhere() {
    let script = [attempt(1).fails(KV_LOCKED)];
    let story = call().retried(Asks(|| Ok(Some(ms(7)))), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(2), vec![0, 7]));
    let refused = call().retried(Asks(|| Ok(None)), &script);
    assert_eq!(refused.end, End::Failed(1));
}

/// C9
#[test]
fn a_decision_that_fails_fails_the_call_at_once() {
    let story = call().retried(
        Asks(|| Err("no quorum".into())),
        &[attempt(1).fails(KV_LOCKED)],
    );
    assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
    assert_eq!(story.info.stopped(), Some(StopReason::Strategy));
}

/// C9
#[test]
fn a_decision_made_elsewhere_passes_the_same_gates() {
    let script = [
        attempt(1).fails(KV_LOCKED).come_back_in(40),
        attempt(2).fails(KV_LOCKED),
    ];
    let at_once = || Asks(|| Ok(Some(ms(0))));
    assert_eq!(
        call().asked_within(40).retried(at_once(), &script).end,
        End::Failed(1)
    );
    assert_eq!(
        call()
            .asked_within(41)
            .retried(at_once(), &script)
            .sent_ms(),
        [0, 40, 40]
    );
    let throttled = call()
        .throttled_by(&bucket(2, 1))
        .retried(at_once(), &script);
    assert_eq!(throttled.info.stopped(), Some(StopReason::Throttled));
}

/// C11
#[test]
fn reasons_are_a_set_and_attempts_a_count() {
    let script = [
        attempt(1).fails(KV_LOCKED),
        attempt(2).fails(KV_TEMPORARY_FAILURE),
        attempt(3).fails(KV_LOCKED),
    ];
    let info = call().retried(BestEffort::new(), &script).info;
    assert_eq!(
        info.reasons().collect::<Vec<_>>(),
        [KV_LOCKED, KV_TEMPORARY_FAILURE]
    );
    assert_eq!(
        (info.count(KV_LOCKED), info.attempts(), info.retries()),
        (2, 4, 3)
    );
}

/// C12
#[test]
fn a_request_lost_in_flight_is_retried_only_if_idempotent() {
    let script = [attempt(1)
        .fails(SOCKET_CLOSED_WHILE_IN_FLIGHT)
        .in_stage(Stage::InFlight)
        .found_at(Stage::InFlight)];
    assert_eq!(
        call().retried(BestEffort::new(), &script).end,
        End::Worked(2)
    );
    let once = call().not_idempotent().retried(BestEffort::new(), &script);
    assert_eq!(once.end, End::Failed(1));
}

/// C13
#[test]
fn a_request_that_never_left_is_sent_again_whatever_it_does() {
    let by_reason = [attempt(1).fails(SOCKET_NOT_AVAILABLE)];
    let by_finding = [attempt(1)
        .fails(SOCKET_CLOSED_WHILE_IN_FLIGHT)
        .in_stage(Stage::InFlight)
        .found_at(Stage::Dispatch)];
    for script in [by_reason, by_finding] {
        let story = call().not_idempotent().retried(BestEffort::new(), &script);
        assert_eq!(story.end, End::Worked(2));
    }
}
