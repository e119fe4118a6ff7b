use std::sync::{Arc, Mutex};
use std::time::Instant;

use proptest::prelude::*;

use super::window::PARTS;
use super::*;
use crate::Stage;
use crate::failure::reason::UNKNOWN;

const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);
const WINDOW: Duration = Duration::from_secs(10);

/// A clock that the test moves.
#[derive(Clone)]
struct Hands(Arc<Mutex<Instant>>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(crate::policy::ticks::now())))
    }

    fn forward(&self, milliseconds: u64) {
        *self.0.lock().unwrap() += Duration::from_millis(milliseconds);
    }

    fn budget(&self, ratio: u32, floor: u32, window: Duration) -> RatioBudget {
        let hands = self.clone();
        let budget = RatioBudget::new(ratio, floor, window).unwrap();
        budget.with_clock(move || *hands.0.lock().unwrap())
    }
}

fn calls(budget: &RatioBudget, times: u32) {
    (0..times).for_each(|_| budget.settled(Settled::Success));
}

/// Retries that are sent until one is refused.
fn sent(budget: &RatioBudget) -> u32 {
    (0..).take_while(|_| budget.spend(None)).count() as u32
}

#[test]
fn numbers_out_of_range_are_refused() {
    for ratio in [0, 1001, u32::MAX] {
        let refused = RatioBudget::new(ratio, 10, WINDOW).map(|_| ());
        assert_eq!(refused, Err(InvalidRatioBudget::Ratio(ratio)));
    }
    for window in [
        Duration::ZERO,
        Duration::from_millis(999),
        Duration::from_millis(3_600_001),
        Duration::MAX,
    ] {
        let refused = RatioBudget::new(200, 10, window).map(|_| ());
        assert_eq!(refused, Err(InvalidRatioBudget::Window(window)));
    }
}

#[test]
fn the_headroom_is_zero_while_retries_are_refused() {
    let budget = Hands::new().budget(300, 0, WINDOW);
    calls(&budget, 3);
    assert!(!budget.allows(None));
    let levels = (budget.milli_tokens(), budget.milli_headroom());
    assert_eq!(levels, (Some(900), Some(0)));
    calls(&budget, 1);
    assert!(budget.allows(None));
    assert_eq!(budget.milli_headroom(), Some(201));
}

#[test]
fn retries_are_a_share_of_the_calls_of_the_window() {
    let hands = Hands::new();
    let budget = hands.budget(200, 0, WINDOW);
    calls(&budget, 24);
    assert_eq!(budget.milli_tokens(), Some(4800));
    assert_eq!(sent(&budget), 4);
    assert!(!budget.allows(Some(&FAILURE)));
    hands.forward(9_999);
    assert!(!budget.allows(None), "still in the window");
    calls(&budget, 5);
    assert_eq!(sent(&budget), 1);
    hands.forward(1);
    assert!(!budget.allows(None), "the new calls have paid their retry");
    assert_eq!(budget.milli_tokens(), Some(0));
}

#[test]
fn the_larger_of_share_and_floor_counts() {
    let hands = Hands::new();
    let budget = hands.budget(200, 3, WINDOW);
    assert_eq!(sent(&budget), 30, "the floor of a whole window");
    calls(&budget, 150);
    assert_eq!(sent(&budget), 0, "a fifth is no more than the floor");
    calls(&budget, 5);
    assert_eq!(sent(&budget), 1);
    hands.forward(10_000);
    assert_eq!(sent(&budget), 30);
}

/// What its documentation says of it.
#[test]
fn while_every_call_fails_it_goes_on_allowing_retries() {
    const SECONDS: u32 = if cfg!(miri) { 20 } else { 100 };
    let hands = Hands::new();
    let budget = hands.budget(200, 0, WINDOW);
    let mut retries = 0;
    for _ in 0..SECONDS {
        for _ in 0..100 {
            budget.first_failed();
            budget.settled(Settled::Failure(&FAILURE));
        }
        retries += sent(&budget);
        hands.forward(1000);
    }
    assert_eq!(retries, 20 * SECONDS);
}

#[test]
fn late_refunds_take_back_no_retry_of_another_call() {
    let hands = Hands::new();
    let budget = hands.budget(1, 1, WINDOW);
    assert_eq!(sent(&budget), 10);
    hands.forward(10_000);
    assert_eq!(sent(&budget), 10);
    (0..10).for_each(|_| budget.refund(None));
    assert_eq!(sent(&budget), 0);
}

#[test]
fn later_attempts_of_a_call_are_no_calls() {
    let budget = Hands::new().budget(1000, 0, WINDOW);
    budget.first_failed();
    budget.settled(Settled::Failure(&FAILURE));
    assert_eq!(sent(&budget), 1);
    budget.settled(Settled::Failure(&FAILURE));
    budget.recovered(Some(&FAILURE));
    budget.recovered(None);
    assert_eq!(budget.milli_tokens(), Some(0));
}

#[test]
fn new_numbers_keep_the_rates() {
    let hands = Hands::new();
    let budget = hands.budget(200, 0, WINDOW);
    calls(&budget, 100);
    (0..10).for_each(|_| assert!(budget.spend(None)));
    budget.reconfigure(300, 0, WINDOW).unwrap();
    assert_eq!(budget.milli_tokens(), Some(20_000));
    budget.reconfigure(300, 0, WINDOW * 2).unwrap();
    assert_eq!(budget.milli_tokens(), Some(40_000));
    assert!(budget.reconfigure(0, 0, WINDOW).is_err());
    hands.forward(19_999);
    assert_eq!(budget.milli_tokens(), Some(40_000));
    hands.forward(1);
    assert_eq!(budget.milli_tokens(), Some(0));
}

#[test]
fn a_clock_that_goes_back_is_one_that_stands() {
    let hands = Hands::new();
    let budget = hands.budget(1000, 0, WINDOW);
    hands.forward(50_000);
    calls(&budget, 1);
    *hands.0.lock().unwrap() -= Duration::from_secs(60);
    calls(&budget, 1);
    assert_eq!(budget.milli_tokens(), Some(2000));
}

#[test]
fn many_threads_never_overspend() {
    const EACH: u32 = if cfg!(miri) { 20 } else { 1000 };
    let budget = Hands::new().budget(100, 0, WINDOW);
    let sent: u32 = std::thread::scope(|scope| {
        let spend = || {
            scope.spawn(|| {
                let one = |_: &u32| {
                    budget.settled(Settled::Success);
                    budget.spend(None)
                };
                (0..EACH).filter(one).count() as u32
            })
        };
        let threads: Vec<_> = (0..4).map(|_| spend()).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(sent, 4 * EACH / 10);
}

#[derive(Clone, Debug)]
enum Event {
    Forward(u64),
    Call(bool),
    Later,
    Ask,
    Numbers(u32, u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0_u64..2500).prop_map(Event::Forward),
        1 => (0_u64..40_000).prop_map(Event::Forward),
        8 => any::<bool>().prop_map(Event::Call),
        2 => Just(Event::Later),
        6 => Just(Event::Ask),
        1 => (1_u32..=1000, 0_u32..3).prop_map(|(ratio, floor)| Event::Numbers(ratio, floor)),
    ]
}

proptest! {
    /// Against a list of all that ever happened, which is searched each time.
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn it_counts_as_a_list_of_all_events(
        ratio in 1_u32..=1000,
        floor in 0_u32..3,
        seconds in 1_u64..20,
        events in proptest::collection::vec(event(), 0..300),
    ) {
        let hands = Hands::new();
        let budget = hands.budget(ratio, floor, Duration::from_secs(seconds));
        let (mut ratio, mut floor, mut now) = (ratio, floor, 0_u64);
        let (mut calls, mut retries): (Vec<u64>, Vec<u64>) = Default::default();
        for event in events {
            // A part is a tenth of the window: in milliseconds a hundred times its seconds.
            let part = |at: u64| at / (seconds * 100);
            let inside = |at: &u64| part(now) - part(*at) < PARTS as u64;
            match event {
                Event::Forward(milliseconds) => {
                    hands.forward(milliseconds);
                    now += milliseconds;
                }
                Event::Call(succeeds) => {
                    if succeeds {
                        budget.settled(Settled::Success);
                    } else {
                        budget.first_failed();
                    }
                    calls.push(now);
                }
                Event::Later => {
                    budget.settled(Settled::Failure(&FAILURE));
                    budget.recovered(Some(&FAILURE));
                }
                Event::Ask => {
                    let sum = |list: &[u64]| list.iter().filter(|at| inside(at)).count() as u64;
                    let most = (sum(&calls) * u64::from(ratio)).max(u64::from(floor) * seconds * 1000);
                    let left = most.saturating_sub(sum(&retries) * 1000);
                    prop_assert_eq!(budget.milli_tokens(), Some(left));
                    prop_assert_eq!(budget.allows(None), left >= 1000);
                    prop_assert_eq!(budget.spend(None), left >= 1000);
                    if left >= 1000 {
                        retries.push(now);
                    }
                }
                Event::Numbers(new_ratio, new_floor) => {
                    (ratio, floor) = (new_ratio, new_floor);
                    budget.reconfigure(ratio, floor, Duration::from_secs(seconds)).unwrap();
                }
            }
        }
    }
}
