//! Failures that the server's application never saw (A6, Transparent Retries), on both machines.

use std::sync::Arc;

use super::model::hedges;
use super::script::{Line, attempt, every_attempt_from, ms};
use super::simulator::{End, call};
use crate::AttemptKind::{Hedge, Initial, Retry, Transparent};
use crate::failure::reason::UNKNOWN;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{MaxAttempts, NeverRetry};
use crate::policy::throttle::TokenBucket;
use crate::{MOST_RECORDS, RetryThrottle, Stage, StopReason, Transparent as Unseen};

fn attempts(max: u32) -> MaxAttempts {
    MaxAttempts::new(max, Backoff::constant(ms(10)))
}

/// Every attempt from this one on.
fn never_leaves(first: u32) -> Line {
    every_attempt_from(first)
        .fails(UNKNOWN)
        .unseen(Unseen::Unlimited)
}

/// R60
#[test]
fn attempts_that_never_left_are_retried_until_the_deadline() {
    let script = [never_leaves(1)];
    let story = call().within(1000).retried(NeverRetry, &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(1000)));
    assert_eq!(
        story.sent_ms()[..7],
        [0, 0, 0, 0, 1, 3, 7],
        "at once first, then more slowly"
    );
    assert!(story.sent.len() > 10);
}

/// R60
#[test]
fn attempts_that_never_left_are_retried_five_times_at_most() {
    let script = [never_leaves(1)];
    let story = call().retried(NeverRetry, &script);
    assert_eq!(story.end, End::Failed(6));
    assert_eq!(story.count(Transparent), 5);
}

/// R60
#[test]
fn attempts_that_never_left_stop_after_a_thousand() {
    let script = [never_leaves(1)];
    let story = call().within(10_000_000).retried(NeverRetry, &script);
    assert_eq!(
        (story.end, story.count(Transparent)),
        (End::Failed(1001), 1000)
    );
}

/// R61
#[test]
fn a_refused_stream_is_retried_once_then_the_policy_decides() {
    let script = [every_attempt_from(1).fails(UNKNOWN).unseen(Unseen::Once)];
    let story = call().retried(attempts(2), &script);
    assert_eq!(story.end, End::Failed(3));
    assert_eq!(story.kinds(), [Initial, Transparent, Retry]);
    assert_eq!(story.sent_ms(), [0, 0, 10]);
}

/// R61
#[test]
fn a_refused_stream_is_retried_also_after_a_processed_attempt() {
    let script = [
        attempt(1).fails(UNKNOWN),
        attempt(2).fails(UNKNOWN).unseen(Unseen::Once),
    ];
    let story = call().retried(attempts(2), &script);
    assert_eq!(
        (story.end, story.kinds()),
        (End::Worked(3), vec![Initial, Retry, Transparent])
    );
}

/// R62
#[test]
fn no_policy_at_all_is_needed() {
    let script = [attempt(1).fails_fatally(UNKNOWN).unseen(Unseen::Once)];
    let story = call().not_idempotent().retried(NeverRetry, &script);
    assert_eq!(story.end, End::Worked(2));
}

/// R62
#[test]
fn an_option_leaves_them_to_the_policy() {
    let script = [never_leaves(1)];
    let story = call()
        .without_transparent_retries()
        .retried(attempts(2), &script);
    assert_eq!(
        (story.end, story.kinds()),
        (End::Failed(2), vec![Initial, Retry])
    );
}

/// R24 R63
#[test]
fn they_count_neither_as_attempts_nor_in_the_throttle() {
    let tokens = Arc::new(TokenBucket::new(2, 100).unwrap());
    let script = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Unlimited),
        attempt(2).fails(UNKNOWN).unseen(Unseen::Once),
        attempt(3).fails(UNKNOWN).unseen(Unseen::Unlimited),
        attempt(4).fails_fatally(UNKNOWN),
    ];
    let story = call().throttled_by(&tokens).retried(attempts(1), &script);
    assert_eq!(story.end, End::Failed(4));
    assert_eq!(tokens.milli_tokens(), Some(2000));
    assert_eq!((story.info.attempts(), story.info.retries()), (4, 0));
}

/// R60 and pushback
#[test]
fn a_stop_beats_them() {
    let script = [attempt(1)
        .fails(UNKNOWN)
        .unseen(Unseen::Unlimited)
        .do_not_come_back()];
    let story = call().retried(attempts(3), &script);
    assert_eq!(
        (story.end, story.info.stopped()),
        (End::Failed(1), Some(StopReason::Pushback))
    );
}

/// R24 R60 R63
#[test]
fn a_hedged_call_sends_it_again_uncounted_and_unthrottled() {
    let tokens = Arc::new(TokenBucket::new(2, 100).unwrap());
    let script = [
        attempt(1).never_answers(),
        attempt(2).fails(UNKNOWN).unseen(Unseen::Unlimited),
        every_attempt_from(3).never_answers(),
    ];
    let policy = hedges(2, 10);
    let story = call()
        .within(50)
        .throttled_by(&tokens)
        .hedged(&policy, &script);
    assert_eq!(story.kinds(), [Initial, Hedge, Transparent]);
    assert_eq!(story.sent_ms(), [0, 10, 10]);
    assert_eq!(tokens.milli_tokens(), Some(2000));
}

/// R61
#[test]
fn a_hedged_call_retries_a_refused_stream_once() {
    let script = [every_attempt_from(1).fails(UNKNOWN).unseen(Unseen::Once)];
    let story = call().hedged(&hedges(2, 10), &script);
    assert_eq!(
        (story.end, story.kinds()),
        (End::Failed(3), vec![Initial, Transparent, Hedge])
    );
}

/// R45 R60 R61: the policy hedges no more, and a server's "do not retry" is about another attempt.
#[test]
fn the_end_of_hedging_leaves_transparent_retries() {
    let fails = |number| attempt(number).fails(UNKNOWN);
    let unsent = attempt(2).fails_fatally(UNKNOWN).in_stage(Stage::Dispatch);
    let refused = |after| fails(1).unseen(Unseen::Once).after(after);
    let policy = hedges(4, 200);
    let stop = fails(2).do_not_come_back();
    for second in [stop.clone(), fails(2).forbids_another(), unsent] {
        let script = [refused(300), second.after(10), attempt(3).after(50)];
        let story = call().hedged(&policy, &script);
        assert_eq!(story.kinds(), [Initial, Hedge, Transparent]);
        assert_eq!(story.sent_ms(), [0, 200, 300]);
        assert_eq!((story.end, story.at), (End::Worked(3), ms(350)));
    }
    let readies = attempt(3).after(50).ready_after(20);
    let story = call().hedged(&policy, &[refused(205), stop.after(10), readies]);
    assert_eq!(story.sent_ms(), [0, 200, 225]);
    assert_eq!((story.end, story.at), (End::Worked(3), ms(275)));
}

/// R21 R45 R61
#[test]
fn after_the_end_of_hedging_a_second_refusal_counts() {
    let tokens = Arc::new(TokenBucket::new(4, 100).unwrap());
    let refused = |number| attempt(number).fails(UNKNOWN).unseen(Unseen::Once);
    let script = [
        refused(1).after(300),
        attempt(2).fails(UNKNOWN).do_not_come_back().after(10),
        refused(3).after(50),
    ];
    let call = call().throttled_by(&tokens);
    let story = call.hedged(&hedges(4, 200), &script);
    assert_eq!((story.end, story.at), (End::Failed(3), ms(350)));
    assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
    assert_eq!(tokens.milli_tokens(), Some(2000));
    let stopped = story.info.records().map(|record| record.stopped);
    let stop = Some(StopReason::Pushback);
    assert!(stopped.eq([stop, None, stop]));
}

/// R21 R51: no copy is left for a transparent retry.
#[test]
fn a_refusal_that_no_retry_can_follow_counts() {
    let tokens = Arc::new(TokenBucket::new(4, 100).unwrap());
    let script = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Once).after(300),
        attempt(2).fails(UNKNOWN).after(10).breaks_off(),
    ];
    let call = call().throttled_by(&tokens);
    let story = call.hedged(&hedges(4, 200), &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(300)));
    assert_eq!(story.info.stopped(), Some(StopReason::NotReplayable));
    assert_eq!(tokens.milli_tokens(), Some(3000));
}

/// R21 R45 R51: a "do not retry" ended the hedging before another attempt took the copy.
#[test]
fn a_refusal_counts_whatever_ended_the_hedging_first() {
    let tokens = Arc::new(TokenBucket::new(4, 100).unwrap());
    let script = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Once).after(400),
        attempt(2).fails(UNKNOWN).do_not_come_back().after(150),
        attempt(3).fails(UNKNOWN).after(100).breaks_off(),
    ];
    let call = call().throttled_by(&tokens);
    let story = call.hedged(&hedges(4, 100), &script);
    assert_eq!(story.sent_ms(), [0, 100, 200]);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(400)));
    assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
    assert_eq!(tokens.milli_tokens(), Some(2000));
}

/// R51: the deadline refused a hedge, so that no transparent retry follows either.
#[test]
fn a_refusal_after_the_deadline_records_why_it_ended() {
    let script = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Once).after(400),
        attempt(2).after(400),
        attempt(3).ready_after(150),
    ];
    let story = call().asked_within(300).hedged(&hedges(3, 100), &script);
    assert_eq!(story.sent_ms(), [0, 100]);
    assert_eq!((story.end, story.at), (End::Worked(2), ms(500)));
    let record = story.info.records().next().unwrap();
    let decided = (record.delay, record.stopped);
    assert_eq!(decided, (None, Some(StopReason::Deadline)));
}

/// R62
#[test]
fn a_hedge_policy_of_one_attempt_still_retries_transparently() {
    let script = [attempt(1).fails_fatally(UNKNOWN).unseen(Unseen::Once)];
    let story = call().hedged(&hedges(1, 10), &script);
    assert_eq!(
        (story.end, story.kinds()),
        (End::Worked(2), vec![Initial, Transparent])
    );
}

/// R62 and pushback, hedged: with the option off, a stop, or a request that cannot be copied, the
/// policy decides, and the failures count.
#[test]
fn a_hedged_call_without_permission_retries_nothing() {
    let unseen = attempt(1).fails(UNKNOWN).unseen(Unseen::Once);
    let policy = hedges(1, 10);
    for (call, line) in [
        (call().without_transparent_retries(), unseen.clone()),
        (call().not_replayable(), unseen.clone()),
        (call(), unseen.clone().do_not_come_back()),
        (call(), unseen.forbids_another()),
    ] {
        let tokens = Arc::new(TokenBucket::new(2, 100).unwrap());
        let story = call.throttled_by(&tokens).hedged(&policy, &[line]);
        assert_eq!((story.end, story.kinds()), (End::Failed(1), vec![Initial]));
        assert_eq!(tokens.milli_tokens(), Some(1000));
    }
}

/// The same cases, retried.
#[test]
fn a_retried_call_without_permission_retries_nothing() {
    let unseen = attempt(1).fails(UNKNOWN).unseen(Unseen::Once);
    for (call, line) in [
        (call().without_transparent_retries(), unseen.clone()),
        (call().not_replayable(), unseen.clone()),
        (call(), unseen.clone().do_not_come_back()),
        (call(), unseen.forbids_another()),
    ] {
        let tokens = Arc::new(TokenBucket::new(2, 100).unwrap());
        let story = call.throttled_by(&tokens).retried(attempts(1), &[line]);
        assert_eq!((story.end, story.kinds()), (End::Failed(1), vec![Initial]));
        assert_eq!(tokens.milli_tokens(), Some(1000));
    }
}

/// R60: a lost connection; the request was waiting for a stream, or was in flight.
#[test]
fn a_lost_connection_is_transparent_where_the_body_was_unread() {
    let lost = |n| {
        let lost = attempt(n).fails(UNKNOWN).in_stage(Stage::InFlight);
        lost.unseen(Unseen::IfUnread)
    };
    let write = || call().not_idempotent();
    let story = write().retried(NeverRetry, &[lost(1).unread()]);
    assert_eq!((story.end, story.count(Transparent)), (End::Worked(2), 1));
    let record = story.info.records().next().unwrap();
    assert_eq!(record.failure.unwrap().stage, Stage::Dispatch);

    let story = write().retried(attempts(2), &[lost(1)]);
    assert_eq!(story.info.stopped(), Some(StopReason::NotIdempotent));
    let story = call().retried(attempts(2), &[lost(1)]);
    assert_eq!((story.end, story.count(Retry)), (End::Worked(2), 1));

    let policy = hedges(1, 10);
    let story = write().hedged(&policy, &[lost(1).unread()]);
    assert_eq!((story.end, story.count(Transparent)), (End::Worked(2), 1));
}

/// R60: no connection to two of three backends; the policy decides on the third.
#[test]
fn an_untried_backend_is_tried_without_counting() {
    let refused = |n| {
        let refused = attempt(n).fails(UNKNOWN).in_stage(Stage::Dispatch);
        refused.unseen(Unseen::NextBackend)
    };
    let refused_from = |n| {
        let refused = every_attempt_from(n)
            .fails(UNKNOWN)
            .in_stage(Stage::Dispatch);
        refused.unseen(Unseen::NextBackend).leaves_a_backend()
    };
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let script = [
        refused(1).leaves_a_backend(),
        refused(2).leaves_a_backend(),
        refused(3),
        refused(4),
    ];
    let story = call().throttled_by(&bucket).retried(attempts(2), &script);
    assert_eq!(story.kinds(), [Initial, Transparent, Transparent, Retry]);
    assert_eq!(story.info.stopped(), Some(StopReason::Attempts));
    assert_eq!(bucket.milli_tokens(), Some(8000), "two were counted");

    // All at once, unlike attempts that never left the client, which have a limit of five and a
    // back-off without a deadline.
    let script: Vec<_> = (1..=9).map(|n| refused(n).leaves_a_backend()).collect();
    let story = call().retried(NeverRetry, &script);
    assert_eq!((story.end, story.at), (End::Worked(10), ms(0)));
    let endless = [refused_from(1)];
    let story = call().within(60_000).retried(NeverRetry, &endless);
    assert_eq!(story.count(Transparent) as usize, MOST_RECORDS, "bounded");

    let story = call().retried(NeverRetry, &[refused(1)]);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0]));
    let off = call().without_transparent_retries();
    let story = off.retried(NeverRetry, &[refused(1).leaves_a_backend()]);
    assert_eq!(story.end, End::Failed(1), "the policy decides");
}

/// A pushback too long for a call without a deadline acts as a stop here too.
#[test]
fn a_pushback_of_more_than_a_day_ends_transparent_retries() {
    let unseen = |pushback| {
        let first = attempt(1).fails(UNKNOWN).unseen(Unseen::Unlimited);
        [first.come_back_in(pushback), attempt(2)]
    };
    let day = 24 * 60 * 60 * 1000;
    let (waits, never) = (unseen(day), unseen(day + 1));
    let policy = hedges(2, 10);
    assert_eq!(call().retried(NeverRetry, &waits).end, End::Worked(2));
    assert_eq!(call().retried(NeverRetry, &never).end, End::Failed(1));
    assert_eq!(call().hedged(&policy, &never).end, End::Failed(1));
    let within = call().within(1000).retried(NeverRetry, &never);
    assert_eq!(within.end, End::Worked(2), "the deadline ends it in time");
}
