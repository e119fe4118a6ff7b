//! Every interleaving of layers on one call's state.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::attempt::AttemptRecord;
use crate::{AttemptKind, AttemptOutcome, Backend, Stage};

/// Runs two threads, one of them the current one.
fn both<T: 'static>(
    state: &Arc<CallState>,
    other: impl FnOnce(&CallState) -> T + 'static,
    mine: impl FnOnce(&CallState),
) -> T {
    let shared = Arc::clone(state);
    let thread = thread::spawn(move || other(&shared));
    mine(state);
    thread.join().unwrap()
}

#[test]
fn a_stop_from_a_layer_above_keeps_the_calls_progress() {
    loom::model(|| {
        let state = Arc::new(CallState::default());
        state.claim_first();
        let stop = |state: &CallState| state.stop(StopReason::Deadline);
        both(&state, stop, CallState::enforce_attempt_timeout);
        assert!(state.is_claimed() && state.has_attempt_timeout());
        let info = state.info();
        assert_eq!(
            (info.attempts(), info.stopped()),
            (1, Some(StopReason::Deadline))
        );
    });
}

/// A hedge is sent before the first attempt fails: a concurrent reader sees an attempt in flight.
#[test]
fn the_end_of_one_attempt_never_hides_another_in_flight() {
    loom::model(|| {
        let state = Arc::new(CallState::default());
        state.claim_first();
        let asks = both(&state, CallState::in_flight, |state| {
            let second = state.sent(2, false);
            state.slots.end(AttemptKey {
                attempt: 1,
                slot: 1,
            });
            assert_eq!(second.attempt, 2);
        });
        assert!(asks);
        assert!(state.in_flight());
    });
}

#[test]
fn an_answer_is_seen_as_the_end_of_all_attempts() {
    loom::model(|| {
        let state = Arc::new(CallState::default());
        state.claim_first();
        let late = |state: &CallState| {
            state.slots.stage(
                AttemptKey {
                    attempt: 1,
                    slot: 1,
                },
                Stage::InFlight,
            )
        };
        both(&state, late, |state| state.won(StopReason::Success));
        assert!(!state.in_flight());
    });
}

#[test]
fn entries_logged_by_two_threads_are_both_kept() {
    loom::model(|| {
        let state = Arc::new(CallState::default());
        state.claim_first();
        let goes = |state: &CallState| state.backend(1, Backend::new("a"));
        both(&state, goes, |state| state.refused(StopReason::Throttled));
        assert!(state.is_logged());
        assert_eq!(state.backend_of(1), Some(Backend::new("a")));
        assert_eq!(state.info().refused(StopReason::Throttled), 1);
    });
}

/// One attempt reports that a newer configuration is coming while `ends` ends the call: nothing
/// keeps its waiter.
fn a_waiter_left_meanwhile_is_dropped(ends: fn(&CallState, AttemptKey)) {
    loom::model(move || {
        let state = Arc::new(CallState::default());
        state.claim_first();
        let key = AttemptKey {
            attempt: 1,
            slot: 1,
        };
        state.sent(2, false);
        let leaves = move |state: &CallState| {
            state.leave_waiter(key, Box::pin(std::future::ready(true)));
        };
        both(&state, leaves, move |state| ends(state, key));
        assert!(state.take_waiter(1).is_none());
    });
}

#[test]
fn a_waiter_left_while_the_call_ends_is_dropped() {
    a_waiter_left_meanwhile_is_dropped(|state, key| {
        state.slots.end(key);
        assert!(state.end(StopReason::Fatal));
        state.drop_waiters();
    });
}

#[test]
fn a_waiter_left_while_another_attempt_wins_is_dropped() {
    a_waiter_left_meanwhile_is_dropped(|state, _| {
        state.won(StopReason::Success);
        let record = AttemptRecord::new(2, AttemptKind::Hedge, AttemptOutcome::Success);
        state.record(&record);
    });
}
