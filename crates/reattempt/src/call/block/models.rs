//! Every interleaving of layers on one call's block.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::Stage;

/// Runs two threads, one of them the current one.
fn both<T: 'static>(
    block: &Arc<CallBlock>,
    other: impl FnOnce(&CallBlock) -> T + 'static,
    mine: impl FnOnce(&CallBlock),
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
            let block = Arc::new(CallBlock::default());
            let mut mine = false;
            let claim = move |block: &CallBlock| {
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
        let block = Arc::new(CallBlock::default());
        assert!(block.claim_first());
        let stop = |block: &CallBlock| block.stop(Stopped::Deadline);
        both(&block, stop, CallBlock::limit_attempts);
        assert!(block.is_claimed() && block.is_attempt_limited());
        let info = block.info();
        assert_eq!(
            (info.attempts(), info.stopped()),
            (1, Some(Stopped::Deadline))
        );
    });
}

/// A hedge is sent before the first attempt fails: a concurrent reader sees an attempt in flight.
#[test]
fn the_end_of_one_attempt_never_hides_another_in_flight() {
    loom::model(|| {
        let block = Arc::new(CallBlock::default());
        assert!(block.claim_first());
        let asks = both(&block, CallBlock::in_flight, |block| {
            let second = block.sent(2, false);
            block.settled(Seat::first_choice(1));
            assert_eq!(second.attempt, 2);
        });
        assert!(asks);
        assert!(block.in_flight());
    });
}

#[test]
fn an_answer_is_seen_as_the_end_of_all_attempts() {
    loom::model(|| {
        let block = Arc::new(CallBlock::default());
        assert!(block.claim_first());
        let late = |block: &CallBlock| block.slots.stage(Seat::first_choice(1), Stage::InFlight);
        both(&block, late, |block| block.won(Stopped::Success));
        assert!(!block.in_flight());
    });
}

#[test]
fn entries_logged_by_two_threads_are_both_kept() {
    loom::model(|| {
        let block = Arc::new(CallBlock::default());
        assert!(block.claim_first());
        let goes = |block: &CallBlock| block.backend(1, Backend::new("a"));
        both(&block, goes, |block| block.refused(Stopped::Throttled));
        assert!(block.is_logged());
        assert_eq!(block.backend_of(1), Some(Backend::new("a")));
        assert_eq!(block.info().refused(Stopped::Throttled), 1);
    });
}
