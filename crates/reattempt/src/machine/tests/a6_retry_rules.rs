//! The rules of A6's retry policy, throttling and pushback that the retry machine implements.

use std::time::Duration;

use super::model::{attempts, bucket};
use super::script::{Line, attempt, every_attempt_from, ms};
use super::simulator::{End, call};
use crate::failure::reason::{KV_NOT_MY_VBUCKET, UNKNOWN};
use crate::policy::backoff::{Backoff, Jitter, Randomness};
use crate::policy::strategy::MaxAttempts;
use crate::{OnDeadline, RetryThrottle, StopReason};

/// R10
#[test]
fn only_a_retryable_failure_is_retried() {
    let final_one = [attempt(1).fails_fatally(UNKNOWN)];
    let story = call().retried(attempts(5), &final_one);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0]));
    assert_eq!(story.info.stopped(), Some(StopReason::Fatal));
    let second = [attempt(1).fails(UNKNOWN), attempt(2).fails_fatally(UNKNOWN)];
    let story = call().retried(attempts(5), &second);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(2), vec![0, 10]));
}

/// R11
#[test]
fn the_longest_delay_caps_the_first_one_too() {
    let capped = MaxAttempts::new(
        4,
        Backoff::exponential(ms(200), ms(100)).jitter(Jitter::None),
    );
    let story = call().retried(capped, &[every_attempt_from(1).fails(UNKNOWN)]);
    assert_eq!(story.sent_ms(), [0, 100, 200, 300]);
}

/// R12
#[test]
fn a_delay_past_all_clocks_is_waited_for_as_far_as_they_go() {
    let endless = || {
        let grows = Backoff::exponential(Duration::MAX, Duration::MAX)
            .jitter(Jitter::None)
            .multiplier(f64::MAX);
        MaxAttempts::new(3, grows).on_deadline(OnDeadline::Cap)
    };
    let script = [every_attempt_from(1).fails(UNKNOWN)];
    let story = call().within(50).retried(endless(), &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(50)));
    let a_year = Duration::from_secs(60 * 60 * 24 * 365);
    let story = call().retried(endless(), &script);
    assert_eq!(story.end, End::Failed(3), "no panic, and no retry at once");
    assert!(story.sent[1].0 > a_year && story.sent[2].0 > 2 * a_year);
}

/// R13
#[test]
fn the_last_failure_is_returned_after_the_maximum_of_attempts() {
    let story = call().retried(attempts(3), &[every_attempt_from(1).fails(UNKNOWN)]);
    assert_eq!(
        (story.end, story.sent_ms()),
        (End::Failed(3), vec![0, 10, 30])
    );
    assert_eq!(story.info.stopped(), Some(StopReason::Attempts));
}

/// R13
#[test]
fn one_attempt_in_all_is_no_retry() {
    for max in [0, 1] {
        let story = call().retried(attempts(max), &[attempt(1).fails(UNKNOWN)]);
        assert_eq!(story.end, End::Failed(1));
    }
}

/// R14
#[test]
fn the_deadline_spans_all_attempts_and_their_delays() {
    let slow = [every_attempt_from(1).fails(UNKNOWN).after(30)];
    let capped = || attempts(5).on_deadline(OnDeadline::Cap);
    let in_flight = call().within(50).retried(capped(), &slow);
    assert_eq!((in_flight.end, in_flight.at), (End::TimedOut, ms(50)));
    assert_eq!(in_flight.sent_ms(), [0, 40]);
    let waiting = call().within(35).retried(capped(), &slow);
    assert_eq!((waiting.end, waiting.at), (End::TimedOut, ms(35)));
}

/// R14
#[test]
fn an_answer_at_the_very_instant_of_the_deadline_wins() {
    let story = call()
        .within(30)
        .retried(attempts(2), &[attempt(1).after(30)]);
    assert_eq!(story.end, End::Worked(1));
}

/// R16
#[test]
fn a_service_that_is_not_ready_uses_no_attempt_up() {
    let script = [
        attempt(1).fails(UNKNOWN).ready_after(500),
        attempt(2).fails(UNKNOWN).ready_after(500),
    ];
    let story = call().retried(attempts(3), &script);
    assert_eq!(story.end, End::Worked(3));
    assert_eq!(story.sent_ms(), [0, 510, 1030]);
}

/// R20 R26
#[test]
fn a_failure_that_drains_the_bucket_to_half_is_not_retried() {
    let script = [every_attempt_from(1).fails(UNKNOWN)];
    let at_half = bucket(10, 4);
    let story = call().throttled_by(&at_half).retried(attempts(5), &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
    assert_eq!(story.info.stopped(), Some(StopReason::Throttled));
    let above = call()
        .throttled_by(&bucket(10, 3))
        .retried(attempts(5), &script);
    assert_eq!(above.end, End::Failed(2));
}

/// R21
#[test]
fn each_failure_costs_a_token_and_a_success_adds_a_tenth() {
    let tokens = bucket(10, 0);
    let call = call().throttled_by(&tokens);
    assert_eq!(
        call.retried(attempts(3), &[every_attempt_from(1).fails(UNKNOWN)])
            .end,
        End::Failed(3)
    );
    assert_eq!(tokens.milli_tokens(), Some(7000));
    call.retried(attempts(3), &[]);
    assert_eq!(tokens.milli_tokens(), Some(7100));
}

/// R21
#[test]
fn a_fatal_failure_costs_nothing() {
    let tokens = bucket(10, 0);
    call()
        .throttled_by(&tokens)
        .retried(attempts(3), &[attempt(1).fails_fatally(UNKNOWN)]);
    assert_eq!(tokens.milli_tokens(), Some(10_000));
}

/// R22
#[test]
fn a_stop_counts_as_a_failure_on_any_code() {
    let tokens = bucket(10, 0);
    let script = [attempt(1).fails_fatally(UNKNOWN).do_not_come_back()];
    call().throttled_by(&tokens).retried(attempts(3), &script);
    assert_eq!(tokens.milli_tokens(), Some(9000));
    let script = [attempt(1).fails(UNKNOWN).do_not_come_back()];
    call().throttled_by(&tokens).retried(attempts(3), &script);
    assert_eq!(tokens.milli_tokens(), Some(8000));
}

/// R22: the server forbade nothing.
#[test]
fn a_delay_that_is_too_long_counts_no_final_failure() {
    let tokens = bucket(10, 0);
    let left = |line: Line| {
        let story = call().throttled_by(&tokens).retried(attempts(3), &[line]);
        (story.end, tokens.milli_tokens())
    };
    let line = attempt(1).asks_for_too_long();
    let fatal = line.clone().fails_fatally(UNKNOWN);
    assert_eq!(left(fatal), (End::Failed(1), Some(10_000)));
    assert_eq!(left(line.fails(UNKNOWN)), (End::Failed(1), Some(9000)));
}

/// R31
#[test]
fn the_servers_delay_is_exact_and_may_exceed_the_longest() {
    let script = [attempt(1).fails(UNKNOWN).come_back_in(500)];
    assert_eq!(call().retried(attempts(3), &script).sent_ms(), [0, 500]);
    let now = [attempt(1).fails(UNKNOWN).come_back_in(0)];
    assert_eq!(call().retried(attempts(3), &now).sent_ms(), [0, 0]);
}

/// R32
#[test]
fn the_backoff_restarts_after_the_servers_delay() {
    let script = [
        every_attempt_from(1).fails(UNKNOWN),
        attempt(3).fails(UNKNOWN).come_back_in(5),
    ];
    let story = call().retried(attempts(6), &script);
    assert_eq!(story.sent_ms(), [0, 10, 30, 35, 45, 65]);
}

/// R32: also one that grows with its last delay, from three times that delay here.
#[test]
fn decorrelated_jitter_restarts_after_the_servers_delay() {
    let backoff = Backoff::exponential(ms(10), Duration::from_secs(20))
        .jitter(Jitter::Decorrelated)
        .randomness(Randomness::Fixed(0.5));
    let script = [
        every_attempt_from(1).fails(UNKNOWN),
        attempt(1).fails(UNKNOWN).come_back_in(10_000),
    ];
    let story = call().retried(MaxAttempts::new(4, backoff), &script);
    assert_eq!(story.sent_ms(), [0, 10_000, 10_020, 10_055]);
}

/// R33
#[test]
fn the_servers_delay_adds_no_attempt() {
    let script = [every_attempt_from(1).fails(UNKNOWN).come_back_in(1)];
    assert_eq!(call().retried(attempts(2), &script).end, End::Failed(2));
}

/// R34
#[test]
fn the_servers_delay_makes_no_failure_retryable() {
    let script = [attempt(1).fails_fatally(UNKNOWN).come_back_in(1)];
    let story = call().retried(attempts(3), &script);
    assert_eq!(
        (story.end, story.info.stopped()),
        (End::Failed(1), Some(StopReason::Fatal))
    );
}

/// R35
#[test]
fn the_servers_delay_on_a_success_is_ignored() {
    for line in [attempt(1).come_back_in(1), attempt(1).do_not_come_back()] {
        let tokens = bucket(10, 1);
        let story = call().throttled_by(&tokens).retried(attempts(3), &[line]);
        assert_eq!(story.end, End::Worked(1));
        assert_eq!(tokens.milli_tokens(), Some(9100));
    }
}

/// R30
#[test]
fn a_stop_ends_the_call_also_for_a_reason_that_always_retries() {
    for reason in [UNKNOWN, KV_NOT_MY_VBUCKET] {
        for line in [
            attempt(1).do_not_come_back(),
            attempt(1).asks_for_too_long(),
            attempt(1).forbids_another(),
        ] {
            let story = call().retried(attempts(3), &[line.fails(reason)]);
            assert_eq!(story.end, End::Failed(1));
            assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
        }
    }
}

/// R36 R51
#[test]
fn a_begun_response_commits_the_call_and_counts_nothing_yet() {
    let tokens = bucket(10, 1);
    let story = call()
        .throttled_by(&tokens)
        .retried(attempts(3), &[attempt(1).commits().come_back_in(1)]);
    assert_eq!(
        (story.end, story.info.stopped()),
        (End::Worked(1), Some(StopReason::Committed))
    );
    assert_eq!(tokens.milli_tokens(), Some(9000));
}
