//! Behaviour of the retry machine beyond the two specifications: nudges, copies, streaks, held
//! failures, records.

use super::model::attempts;
use super::script::{attempt, every_attempt_from, ms};
use super::simulator::{End, call};
use crate::failure::reason::{KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, UNKNOWN};
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{BestEffort, Extended};
use crate::{
    AttemptKind, Decision, Failure, HedgePolicy, OnDeadline, RetryStrategy, RetryView, Stage,
    StopReason, Surface,
};

#[test]
fn a_configuration_that_moved_the_key_ends_the_wait() {
    let moved = [attempt(1).fails(KV_TEMPORARY_FAILURE).key_moves_after(3)];
    let story = call().retried(attempts(3), &moved);
    assert_eq!(story.sent_ms(), [0, 3]);
    let record = story.info.records().next().unwrap();
    assert_eq!(record.delay, Some(ms(3)), "what was really waited");
    let late = [attempt(1).fails(KV_TEMPORARY_FAILURE).key_moves_after(30)];
    assert_eq!(call().retried(attempts(3), &late).sent_ms(), [0, 10]);
}

/// C33: there is no wait at all instead of a shortened one: it fits before any deadline, and the
/// record says so.
#[test]
fn a_key_that_has_moved_already_is_sent_for_without_a_delay() {
    let moves = |n| attempt(n).fails(KV_NOT_MY_VBUCKET).key_moves_after(0);
    let script: Vec<_> = (1..9).map(moves).collect();
    for on_deadline in [OnDeadline::Cap, OnDeadline::GiveUp] {
        // The controlled back-off after the fifth retry would be one second.
        let strategy = attempts(1).on_deadline(on_deadline);
        let story = call().within(100).retried(strategy, &script);
        assert_eq!(story.end, End::Worked(9));
        let delays: Vec<_> = story.info.records().map(|record| record.delay).collect();
        assert!(
            delays[..8].iter().all(|delay| *delay == Some(ms(0))),
            "{delays:?}"
        );
    }
    let by_policy = [attempt(1).fails(KV_TEMPORARY_FAILURE).key_moves_after(0)];
    let story = call().within(5).retried(attempts(2), &by_policy);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(2), vec![0, 0]));
}

/// Without this limit a faulty cluster receives requests without delay, forever.
#[test]
fn a_key_that_moves_with_every_response_reaches_the_back_off() {
    let moves = [every_attempt_from(1)
        .fails(KV_NOT_MY_VBUCKET)
        .key_moves_after(0)];
    let capped = attempts(1).on_deadline(OnDeadline::Cap);
    let story = call().within(10_000).retried(capped, &moves);
    assert_eq!(story.end, End::TimedOut);
    assert!(story.sent_ms()[..17].iter().all(|at| *at == 0));
    assert_eq!(story.sent_ms()[17..19], [1000, 2000]);
    assert_eq!(story.sent.len(), 26);
}

const DAY: u64 = 24 * 60 * 60 * 1000;

#[test]
fn without_a_deadline_a_delay_of_more_than_a_day_means_stop() {
    let for_years = |by| [every_attempt_from(1).fails(UNKNOWN).come_back_in(by)];
    for by in [DAY + 1, u64::MAX] {
        let story = call().retried(attempts(3), &for_years(by));
        assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
        assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
        let story = call().hedged(&HedgePolicy::new(3, ms(9)), &for_years(by));
        assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
        assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
    }
    let story = call().retried(attempts(2), &for_years(DAY));
    assert_eq!(story.sent_ms(), [0, u128::from(DAY)]);
}

#[test]
fn with_a_deadline_any_delay_is_held_against_it() {
    let script = [attempt(1).fails(UNKNOWN).come_back_in(u64::MAX)];
    let capped = || attempts(3).on_deadline(OnDeadline::Cap);
    let story = call().within(50).retried(capped(), &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(50)));
    let story = call().asked_within(50).retried(capped(), &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
    assert_eq!(story.info.stopped(), Some(StopReason::Deadline));
}

/// R51 R52
#[test]
fn a_request_that_cannot_be_copied_is_sent_once() {
    for reason in [UNKNOWN, KV_NOT_MY_VBUCKET] {
        let story = call()
            .not_replayable()
            .retried(attempts(3), &[attempt(1).fails(reason)]);
        assert_eq!(story.end, End::Failed(1));
        assert_eq!(story.info.stopped(), Some(StopReason::NotReplayable));
    }
}

/// Decides by the failures so far.
#[derive(Debug)]
struct Until<F>(F);

impl<F: Fn(&RetryView<'_>) -> bool + std::fmt::Debug + Send + Sync> RetryStrategy for Until<F> {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if (self.0)(view) {
            Decision::Stop
        } else {
            Decision::After(ms(1))
        }
    }
}

/// C29
#[test]
fn a_streak_has_one_code_and_restarts_with_another() {
    let third = |view: &RetryView<'_>| view.streak == 3;
    let script = [
        every_attempt_from(1).fails(KV_LOCKED).with_code(9),
        attempt(3).fails(KV_LOCKED).with_code(0x86),
    ];
    let until = Until(third as fn(&RetryView<'_>) -> bool);
    assert_eq!(call().retried(until, &script).end, End::Failed(6));
}

/// Keeps the first failure if the second attempt was never sent.
#[derive(Debug)]
struct Holds;

impl RetryStrategy for Holds {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::After(ms(1))
    }
    fn max_attempts(&self) -> Option<u32> {
        Some(3)
    }
    fn holds(&self) -> bool {
        true
    }
    fn surface(&self, _: &Failure, new: &Failure) -> Surface {
        if new.stage == Stage::Dispatch {
            Surface::Held
        } else {
            Surface::New
        }
    }
}

/// M22 M28
#[test]
fn a_strategy_that_holds_chooses_the_failure_that_is_returned() {
    let script = [
        every_attempt_from(1).fails(UNKNOWN),
        attempt(3).fails(UNKNOWN).in_stage(Stage::Dispatch),
    ];
    assert_eq!(call().retried(Holds, &script).end, End::Failed(2));
    let script = [
        every_attempt_from(1).fails(UNKNOWN),
        attempt(2).fails(UNKNOWN).in_stage(Stage::Dispatch),
    ];
    assert_eq!(call().retried(Holds, &script).end, End::Failed(3));
    let script = [
        every_attempt_from(2)
            .fails(UNKNOWN)
            .in_stage(Stage::Dispatch),
        attempt(1).fails(UNKNOWN),
    ];
    assert_eq!(call().retried(Holds, &script).end, End::Failed(1));
}

#[test]
fn every_failed_attempt_leaves_its_record() {
    let script = [
        attempt(1).fails(KV_LOCKED).with_code(9),
        attempt(2).fails_fatally(UNKNOWN),
    ];
    let story = call().retried(attempts(3), &script);
    let seen: Vec<_> = story
        .info
        .records()
        .map(|record| (record.number, record.kind, record.delay, record.stopped))
        .collect();
    let retried = (1, AttemptKind::Initial, Some(ms(10)), None);
    assert_eq!(
        seen,
        [
            retried,
            (2, AttemptKind::Retry, None, Some(StopReason::Fatal))
        ]
    );
}

/// Clamps a server's delay to between its own back-off of 10 ms and twice as long.
#[derive(Debug)]
struct Bounds;

impl RetryStrategy for Bounds {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::After(ms(10))
    }

    fn delay_asked(
        &self,
        _: &Failure,
        asked: std::time::Duration,
        own: std::time::Duration,
    ) -> std::time::Duration {
        asked.clamp(own, own * 2)
    }
}

#[test]
fn a_strategy_may_bound_the_servers_delay() {
    let asks = |n, by| attempt(n).fails(UNKNOWN).come_back_in(by);
    let script = [asks(1, 1), asks(2, 15), asks(3, 99)];
    let boxed: Box<dyn RetryStrategy> = Box::new(Bounds);
    for story in [
        call().retried(Bounds, &script),
        call().retried(boxed, &script),
    ] {
        assert_eq!(story.sent_ms(), [0, 10, 25, 45]);
    }
    // In an extended strategy, the strategy of each reason decides.
    let locked = |n| attempt(n).fails(KV_LOCKED).come_back_in(99);
    let extended = Extended::new(Bounds).by(KV_LOCKED, attempts(9));
    let story = call().retried(extended, &[asks(1, 99), locked(2)]);
    assert_eq!(story.sent_ms(), [0, 20, 119]);
}

/// The raise to the back-off is that of the strategy that has no maximum, for its own reasons.
#[test]
fn each_strategy_of_an_extended_one_keeps_its_own_pushback() {
    let unlimited = || BestEffort::with_backoff(Backoff::constant(ms(10)));
    let asks = |n, reason| attempt(n).fails(reason).come_back_in(1);
    let script = [asks(1, UNKNOWN), asks(2, KV_LOCKED), asks(3, UNKNOWN)];
    let some = Extended::new(attempts(9)).by(KV_LOCKED, unlimited());
    assert_eq!(call().retried(some, &script).sent_ms(), [0, 1, 11, 12]);
    let most = Extended::new(unlimited()).by(KV_LOCKED, attempts(9));
    assert_eq!(call().retried(most, &script).sent_ms(), [0, 10, 11, 21]);
}

/// Its maximum depends on earlier failures, and the record shows it.
#[derive(Debug)]
struct Twice;

impl RetryStrategy for Twice {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.retries == 2 {
            Decision::Exhausted
        } else {
            Decision::After(ms(1))
        }
    }
}

#[test]
fn a_strategy_may_say_that_its_attempts_are_used_up() {
    let story = call().retried(Twice, &[every_attempt_from(1).fails(KV_LOCKED)]);
    assert_eq!(story.end, End::Failed(3));
    assert_eq!(story.info.stopped(), Some(StopReason::Attempts));
}
