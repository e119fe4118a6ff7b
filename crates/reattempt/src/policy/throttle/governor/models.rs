//! Every interleaving of a few threads on one governor.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::Stage;
use crate::failure::reason::{KV_TEMPORARY_FAILURE, UNKNOWN};

const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);
const OVERLOAD: Failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);

fn governor(burst: u32, ratio: u32) -> Governor {
    Governor::new(burst, ratio).unwrap()
}

fn spent(governor: &Governor, failure: Option<&Failure>) -> u32 {
    u32::from(governor.spend(failure))
}

#[test]
fn threads_together_spend_no_more_than_the_budget() {
    loom::model(|| {
        let governor = Arc::new(governor(2, 1000));
        let other = {
            let governor = Arc::clone(&governor);
            thread::spawn(move || spent(&governor, None) + spent(&governor, None))
        };
        let own = spent(&governor, None) + spent(&governor, None);
        assert_eq!(own + other.join().unwrap(), 2);
        assert_eq!(governor.load().budget, 0);
    });
}

#[test]
fn a_success_and_a_spend_are_both_counted() {
    loom::model(|| {
        let governor = Arc::new(governor(2, 400));
        assert!(governor.spend(None) && governor.spend(None));
        (0..2).for_each(|_| governor.settled(Settled::Success));
        let other = {
            let governor = Arc::clone(&governor);
            thread::spawn(move || governor.settled(Settled::Success))
        };
        let paid = spent(&governor, None);
        other.join().unwrap();
        assert_eq!(governor.load().budget, 3 * 400 - paid * 1000);
    });
}

#[test]
fn no_failure_is_lost_between_threads() {
    loom::model(|| {
        let governor = Arc::new(governor(3, 500));
        let other = {
            let governor = Arc::clone(&governor);
            thread::spawn(move || governor.settled(Settled::Failure(&FAILURE)))
        };
        governor.settled(Settled::Failure(&FAILURE));
        assert!(governor.spend(Some(&FAILURE)));
        other.join().unwrap();
        let Word { level, budget, .. } = governor.load();
        assert_eq!((level, budget), (4000, 2000));
    });
}

#[test]
fn a_permit_is_used_once() {
    loom::model(|| {
        let governor = Arc::new(governor(2, 1));
        (0..2).for_each(|_| governor.settled(Settled::Failure(&FAILURE)));
        governor.first_failed();
        let other = {
            let governor = Arc::clone(&governor);
            thread::spawn(move || spent(&governor, Some(&FAILURE)))
        };
        let own = spent(&governor, Some(&FAILURE));
        assert_eq!(own + other.join().unwrap(), 1);
    });
}

#[test]
fn a_permit_is_kept_if_its_price_was_spent() {
    loom::model(|| {
        let governor = Arc::new(governor(2, 1));
        governor.first_failed();
        assert!(governor.spend(None));
        let other = {
            let governor = Arc::clone(&governor);
            thread::spawn(move || spent(&governor, None))
        };
        // Too dear for the budget, so that only the permit allows it.
        let own = spent(&governor, Some(&OVERLOAD));
        let other = other.join().unwrap();
        assert_eq!(own + other, 1);
        assert_eq!(governor.lone.load(Ordering::Relaxed) & 1 == 1, own == 0);
    });
}
