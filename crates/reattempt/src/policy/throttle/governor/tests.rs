use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::Stage;
use crate::failure::reason::{KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE, UNKNOWN};

crate::retry_reasons! { BODY_FAILED(false, false, request); }

const OVERLOAD: Failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
const TRANSIENT: Failure = Failure::new(UNKNOWN, Stage::Response);
/// The client's own failure.
const OWN: Failure = Failure::new(BODY_FAILED, Stage::InFlight);
const UNSENT: Failure = Failure::new(NODE_NOT_AVAILABLE, Stage::Dispatch);

/// A clock that the test moves, in milliseconds.
#[derive(Clone, Default)]
struct Hands(Arc<StdAtomicU64>);

impl Hands {
    fn forward(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, StdOrdering::Relaxed);
    }

    fn governor(&self, burst: u32, ratio: u32) -> Governor {
        let (hands, start) = (self.0.clone(), crate::policy::ticks::now());
        let governor = Governor::new(burst, ratio).unwrap();
        governor.with_clock(move || start + Duration::from_millis(hands.load(StdOrdering::Relaxed)))
    }
}

fn fail(governor: &Governor, failure: &Failure, times: u32) {
    (0..times).for_each(|_| governor.settled(Settled::Failure(failure)));
}

fn succeed(governor: &Governor, times: u32) {
    (0..times).for_each(|_| governor.settled(Settled::Success));
}

/// Without a lone failure, so that only level and budget decide.
fn governor(burst: u32, ratio: u32) -> Governor {
    Hands::default().governor(burst, ratio)
}

#[test]
fn numbers_out_of_range_are_refused() {
    for burst in [0, 501, u32::MAX] {
        let refused = Governor::new(burst, 700).map(|_| ());
        assert_eq!(refused, Err(InvalidGovernor::Burst(burst)));
    }
    for ratio in [0, 1001, u32::MAX] {
        let refused = Governor::new(20, ratio).map(|_| ());
        assert_eq!(refused, Err(InvalidGovernor::Ratio(ratio)));
    }
    for (burst, ratio) in [(1, 1), (500, 1000)] {
        let word = Governor::new(burst, ratio).unwrap().load();
        assert_eq!(word, Word::full(burst, ratio));
    }
}

#[test]
fn a_failure_costs_what_its_class_says() {
    for (failure, allowed) in [(OVERLOAD, 3), (TRANSIENT, 19), (UNSENT, 39), (OWN, 39)] {
        let governor = governor(20, 700);
        fail(&governor, &failure, allowed);
        assert!(governor.allows(Some(&failure)), "{:?}", failure.class());
        fail(&governor, &failure, 1);
        assert!(!governor.allows(Some(&failure)), "{:?}", failure.class());
        assert!(!governor.spend(Some(&failure)), "{:?}", failure.class());
    }
}

#[test]
fn the_headroom_is_zero_while_a_retry_is_refused() {
    let full = governor(20, 700);
    assert_eq!(full.milli_headroom(), Some(15_001));
    (0..15).for_each(|_| assert!(full.spend(Some(&TRANSIENT))));
    assert!(full.allows(Some(&OVERLOAD)));
    assert_eq!(full.milli_headroom(), Some(1));
    assert!(full.spend(Some(&TRANSIENT)) && !full.allows(Some(&OVERLOAD)));
    assert_eq!(full.milli_headroom(), Some(0));

    let low = governor(20, 700);
    fail(&low, &TRANSIENT, 19);
    assert_eq!(low.milli_headroom(), Some(1000));
    fail(&low, &TRANSIENT, 1);
    assert!(!low.allows(Some(&TRANSIENT)));
    assert_eq!(low.milli_headroom(), Some(0));

    for burst in [2, 5] {
        let small = governor(burst, 1);
        (1..burst).for_each(|_| assert!(small.spend(Some(&TRANSIENT))));
        assert_eq!(small.milli_headroom(), Some(1));
        assert!(small.spend(Some(&TRANSIENT)) && !small.allows(Some(&TRANSIENT)));
        assert_eq!(small.milli_headroom(), Some(0));
    }
}

#[test]
fn only_first_attempts_that_succeed_feed_it() {
    let governor = governor(20, 500);
    fail(&governor, &TRANSIENT, 21);
    let before = governor.load();
    governor.recovered(Some(&TRANSIENT));
    governor.refund(Some(&TRANSIENT));
    governor.refund(None);
    assert_eq!(governor.load(), before);
    succeed(&governor, 2);
    assert_eq!(governor.level(), 0.5);
    assert!(!governor.allows(None));
    succeed(&governor, 1);
    assert!(governor.allows(None));
}

#[test]
fn each_further_attempt_pays_the_price_of_its_class() {
    for (failure, paid) in [
        (Some(&OVERLOAD), 5),
        (Some(&TRANSIENT), 1),
        (Some(&UNSENT), 1),
        (None, 1),
    ] {
        let governor = governor(20, 700);
        let granted = (0..100).filter(|_| governor.spend(failure)).count();
        assert_eq!(granted, 20 / paid, "{failure:?}");
    }
    let governor = governor(20, 700);
    assert!((0..16).all(|_| governor.spend(None)));
    assert!(!governor.allows(Some(&OVERLOAD)) && governor.allows(Some(&TRANSIENT)));
    let refusal = governor.refusal(Some(&OVERLOAD)).unwrap();
    let text = "after overload: the budget of 4 is below 5";
    assert_eq!(refusal.to_string(), text);
}

#[test]
fn an_empty_budget_refuses_until_it_is_fed() {
    let governor = governor(2, 500);
    assert_eq!(governor.milli_tokens(), Some(2000));
    assert!(governor.spend(Some(&TRANSIENT)) && governor.spend(None));
    assert!(!governor.spend(None) && !governor.spend(Some(&UNSENT)));
    let refusal = governor.refusal(Some(&UNSENT)).unwrap();
    assert_eq!(
        refusal.to_string(),
        "after unsent: the budget of 0 is below 1"
    );
    succeed(&governor, 1);
    let refusal = governor.refusal(None).unwrap();
    assert_eq!(refusal.to_string(), "hedge: the budget of 0.5 is below 1");
    succeed(&governor, 1);
    assert_eq!(governor.refusal(None), None);
    assert_eq!(governor.milli_tokens(), Some(1000));
}

#[test]
fn balances_stay_in_their_bounds() {
    let governor = governor(3, 700);
    succeed(&governor, 5);
    assert_eq!(governor.load(), Word::full(3, 700));
    fail(&governor, &OVERLOAD, 9);
    assert_eq!((governor.load().level, governor.load().budget), (0, 3000));
    assert_eq!(governor.milli_tokens(), Some(0));
    succeed(&governor, 1000);
    assert_eq!(governor.load(), Word::full(3, 700));
}

#[test]
fn a_new_configuration_keeps_the_fill_fractions() {
    let governor = governor(10, 700);
    fail(&governor, &TRANSIENT, 5);
    assert!(governor.spend(None));
    governor.reconfigure(20, 100).unwrap();
    let word = governor.load();
    assert_eq!((word.level, word.budget), (30_000, 18_000));
    succeed(&governor, 1);
    assert_eq!(governor.load().budget, 18_100);
    assert!(governor.reconfigure(0, 1).is_err());
    assert_eq!(governor.load().budget, 18_100);
}

/// How often it retries calls of one a second that all fail, in order.
fn retries_each_second(burst: u32, ratio: u32) -> Vec<bool> {
    let hands = Hands::default();
    let governor = hands.governor(burst, ratio);
    let second = |_| {
        // A retry fails half a second after its call.
        governor.first_failed();
        governor.settled(Settled::Failure(&OVERLOAD));
        let is_allowed = governor.allows(Some(&OVERLOAD));
        assert_eq!(governor.refusal(Some(&OVERLOAD)).is_none(), is_allowed);
        assert_eq!(governor.spend(Some(&OVERLOAD)), is_allowed);
        hands.forward(500);
        governor.settled(Settled::Failure(&OVERLOAD));
        hands.forward(500);
        is_allowed
    };
    let all = (0..10_000).map(second).collect();
    assert!(!governor.allows(None), "no hedge uses what a failure left");
    all
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes")]
fn one_call_a_second_is_never_refused_for_longer() {
    let count = |all: &[bool]| all.iter().filter(|is_allowed| **is_allowed).count();
    for (burst, ratio) in [(20, 700), (1, 500), (500, 500), (1, 1000)] {
        let all = retries_each_second(burst, ratio);
        let is_locked = |two: &[bool]| !two[0] && !two[1];
        assert!(!all.windows(2).any(is_locked), "{burst}, {ratio}");
    }
    // 20 + 0.7 × 9,999 tokens, of which the first two retries pay five each: until then the level
    // is above half.
    assert_eq!(count(&retries_each_second(20, 700)), 7019 - 2 * 4);
    assert_eq!(count(&retries_each_second(20, 1000)), 10_000);
    // The bound leaves no room for more.
    let few = retries_each_second(20, 100);
    assert_eq!(count(&few), 1019 - 2 * 4);
    assert!(few.windows(9).any(|nine| !nine.contains(&true)));
}

#[test]
fn a_failure_among_others_leaves_no_permit() {
    let hands = Hands::default();
    let governor = hands.governor(5, 1);
    fail(&governor, &OVERLOAD, 2);
    governor.first_failed();
    assert!(governor.spend(Some(&OVERLOAD)), "the first is alone");
    let mut granted = 0;
    for _ in 0..1000 {
        hands.forward(499);
        governor.first_failed();
        granted += u32::from(governor.spend(Some(&OVERLOAD)));
    }
    assert_eq!(granted, 0);
    hands.forward(500);
    governor.first_failed();
    assert!(governor.spend(Some(&OVERLOAD)) && !governor.spend(Some(&OVERLOAD)));
}

/// An adversary chooses outcomes, orders and cancellations. After each step the bound holds in
/// every window that ends there: `excess` is the most, over all of them, of the attempts that no
/// first attempt of the window explains. Of those that fail only lone ones do: at most what the
/// issue's bound allows, which counts all.
///
/// `REATTEMPT_GOVERNOR_STEPS=100000000 cargo test --release -p reattempt --lib governor`
#[test]
fn no_adversary_gets_more_than_the_bound_in_any_window() {
    let steps = std::env::var("REATTEMPT_GOVERNOR_STEPS");
    let steps = steps.ok().map_or(1_000_000, |steps| steps.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(16);
    let mut done = 0_u64;
    while done < steps {
        let (burst, ratio) = match random.random_range(0..3) {
            0 => (Governor::DEFAULT_BURST, Governor::DEFAULT_RATIO),
            1 => (random.random_range(1..=5), random.random_range(1..=1000)),
            _ => (random.random_range(1..=500), 1000),
        };
        let (most_excess, taken) = attack(&mut random, burst, ratio);
        let bound = i64::from(burst) * 1000;
        assert!(
            most_excess <= bound,
            "{most_excess} > {bound}: {burst}, {ratio}"
        );
        done += taken;
    }
}

fn attack(random: &mut SmallRng, burst: u32, ratio: u32) -> (i64, u64) {
    const STEPS: u64 = if cfg!(miri) { 1000 } else { 20_000 };
    let hands = Hands::default();
    let governor = hands.governor(burst, ratio);
    let (mut excess, mut most) = (0_i64, 0);
    let (mut now, mut failed_at) = (0_u64, None);
    let (mut success, mut greed, mut pace) = (0.5, 0.5, 1);
    for step in 0..STEPS {
        if step % 500 == 0 {
            success = [0.0, 0.5, 0.97, 1.0][random.random_range(0..4)];
            greed = [0.0, 0.3, 0.9][random.random_range(0..3)];
            pace = [1, 20, 600][random.random_range(0..3)];
        }
        let failure = [OVERLOAD, TRANSIENT, UNSENT][random.random_range(0..3)];
        let any = [None, Some(&failure)][random.random_range(0..2)];
        if random.random_bool(greed) {
            // Any order: an attempt may be paid long after its failure was counted.
            if governor.allows(any) && governor.spend(any) {
                excess += 1000;
            }
        } else if random.random_bool(success) {
            governor.settled(Settled::Success);
            excess -= i64::from(ratio);
        } else {
            match random.random_range(0..5) {
                // A first attempt is dropped, or fails.
                0..=2 => {
                    governor.first_failed();
                    let is_lone = failed_at.is_none_or(|at: u64| now - at >= 500);
                    failed_at = Some(now);
                    excess -= if is_lone { i64::from(ratio) } else { 0 };
                    if random.random_bool(0.7) {
                        governor.settled(Settled::Failure(&failure));
                    }
                }
                3 => governor.refund(any),
                _ => governor.recovered(any),
            }
        }
        // The best window that ends here may be the empty one.
        excess = excess.max(0);
        most = most.max(excess);
        let passed = random.random_range(0..=pace);
        hands.forward(passed);
        now += passed;
    }
    (most, STEPS)
}

/// A look-up that mostly finds nothing is no trouble.
#[test]
fn a_final_answer_earns_as_a_success_does() {
    use crate::driver::RetryDriver;
    use crate::machine::{Facts, FailedAttempt};
    use crate::policy::strategy::NeverRetry;
    use crate::{AttemptKind, Verdict};

    let governor = governor(20, 700);
    fail(&governor, &TRANSIENT, 30);
    assert!(!governor.allows(None));
    let end = |verdict: Verdict| {
        let facts = Facts::new(crate::policy::ticks::now(), 1, AttemptKind::Initial);
        let mut failed = FailedAttempt::new(&facts, &verdict).unwrap();
        RetryDriver::default().failed(&mut failed, &NeverRetry, Some(&governor), &());
    };
    // Of a connection that broke nothing is earned.
    let broken = Failure::new(UNKNOWN, Stage::InFlight);
    (0..30).for_each(|_| end(Verdict::Fatal(broken)));
    assert!(!governor.allows(None));
    (0..30).for_each(|_| end(Verdict::Fatal(TRANSIENT)));
    assert!(governor.allows(None));
}
