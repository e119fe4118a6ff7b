//! Every interleaving of a few threads on one bucket.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::failure::reason::UNKNOWN;
use crate::{Failure, Stage};

fn fails(bucket: &TokenBucket) {
    bucket.settled(Settled::Failure(&Failure::new(UNKNOWN, Stage::Response)));
}

fn bucket(max_tokens: u32, milli_ratio: u32, failures: u32) -> Arc<TokenBucket> {
    let bucket = TokenBucket::new(max_tokens, milli_ratio).unwrap();
    (0..failures).for_each(|_| fails(&bucket));
    Arc::new(bucket)
}

fn fill(bucket: &TokenBucket) -> u64 {
    bucket.milli_tokens().unwrap()
}

/// R21
#[test]
fn nothing_that_is_counted_is_lost() {
    loom::model(|| {
        let bucket = bucket(5, 300, 2);
        let other = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || {
                fails(&bucket);
                bucket.settled(Settled::Success);
            })
        };
        bucket.settled(Settled::Success);
        fails(&bucket);
        other.join().unwrap();
        assert_eq!(fill(&bucket), 3000 + 2 * 300 - 2 * 1000);
    });
}

/// R21
#[test]
fn it_never_leaves_its_bounds_between_threads() {
    loom::model(|| {
        let bucket = bucket(1, 700, 0);
        let failing = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || (0..2).for_each(|_| fails(&bucket)))
        };
        for _ in 0..2 {
            bucket.settled(Settled::Success);
            assert!(fill(&bucket) <= 1000);
        }
        failing.join().unwrap();
        // A success while the bucket is full, or a failure while it is empty, changes nothing.
        assert!([0, 700, 1000].contains(&fill(&bucket)), "{}", fill(&bucket));
    });
}

/// R25
#[test]
fn a_new_configuration_and_a_failure_come_one_after_the_other() {
    loom::model(|| {
        let bucket = bucket(4, 100, 0);
        let failing = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || fails(&bucket))
        };
        bucket.reconfigure(8, 200).unwrap();
        assert!(fill(&bucket) <= 8000 && bucket.allows(None));
        failing.join().unwrap();
        assert!([6000, 7000].contains(&fill(&bucket)), "{}", fill(&bucket));
        let before = fill(&bucket);
        bucket.settled(Settled::Success);
        assert_eq!(fill(&bucket), before + 200, "the new ratio counts");
    });
}

/// R20: a thread that has seen a failure counted sees its effect on the bucket.
#[test]
fn a_permit_sees_every_counted_failure() {
    loom::model(|| {
        let bucket = bucket(2, 1000, 0);
        let failing = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || {
                fails(&bucket);
                assert!(!bucket.allows(None));
            })
        };
        fails(&bucket);
        assert!(!bucket.allows(None));
        failing.join().unwrap();
        assert_eq!(fill(&bucket), 0);
    });
}
