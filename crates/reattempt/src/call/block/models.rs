//! Every interleaving of layers on one call's block.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::Stage;

/// Runs two threads, one of them the current one.
fn both<T: 'static>(
    block: &Arc<CallState>,
    other: impl FnOnce(&CallState) -> T + 'static,
    mine: impl FnOnce(&CallState),
) -> T {
    let shared = Arc::clone(block);
    let thread = thread::spawn(move || other(&shared));
    mine(block);
    thread.join().unwrap()
}

#[test]
fn of_two_clones_of_a_request_one_claims_the_block() {
    for first in [true, false] {
        loom::model(move || {
            let block = Arc::new(CallState::default());
            let mut mine = false;
            let claim = move |block: &CallState| {
                if first {
                    block.claim_first()
                } else {
                    block.claim()
                }
            };
            let theirs = both(&block, claim, |block| mine = block.claim_first());
            assert_ne!(mine, theirs);
            assert!(block.is_claimed());
        });
    }
}

#[test]
fn a_stop_from_a_layer_above_keeps_the_calls_progress() {
    loom::model(|| {
        let block = Arc::new(CallState::default());
        assert!(block.claim_first());
        let stop = |block: &CallState| block.stop(StopReason::Deadline);
        both(&block, stop, CallState::limit_attempts);
        assert!(block.is_claimed() && block.is_attempt_limited());
        let info = block.info();
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
        let block = Arc::new(CallState::default());
        assert!(block.claim_first());
        let asks = both(&block, CallState::in_flight, |block| {
            let second = block.sent(2, false);
            block.settled(AttemptKey::first_choice(1));
            assert_eq!(second.attempt, 2);
        });
        assert!(asks);
        assert!(block.in_flight());
    });
}

#[test]
fn an_answer_is_seen_as_the_end_of_all_attempts() {
    loom::model(|| {
        let block = Arc::new(CallState::default());
        assert!(block.claim_first());
        let late = |block: &CallState| {
            block
                .slots
                .stage(AttemptKey::first_choice(1), Stage::InFlight)
        };
        both(&block, late, |block| block.won(StopReason::Success));
        assert!(!block.in_flight());
    });
}

#[test]
fn entries_logged_by_two_threads_are_both_kept() {
    loom::model(|| {
        let block = Arc::new(CallState::default());
        assert!(block.claim_first());
        let goes = |block: &CallState| block.backend(1, Backend::new("a"));
        both(&block, goes, |block| block.refused(StopReason::Throttled));
        assert!(block.is_logged());
        assert_eq!(block.backend_of(1), Some(Backend::new("a")));
        assert_eq!(block.info().refused(StopReason::Throttled), 1);
    });
}
