use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};

use super::*;
use crate::reason::NOT_ADMITTED;
use crate::{Failure, Stage, StopReason};

const CRITICAL: Criticality = Criticality::CRITICAL;

const TEN: Duration = Duration::from_secs(10);

/// A clock that the test moves, in milliseconds.
#[derive(Clone, Default)]
struct Hands(Arc<StdAtomicU64>);

impl Hands {
    fn forward(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, StdOrdering::Relaxed);
    }

    fn admission(&self, multiplier: u32, roll: f64) -> Admission {
        self.turn(Admission::new(multiplier, TEN).unwrap())
            .randomness(Randomness::Fixed(roll))
    }

    fn turn(&self, admission: Admission) -> Admission {
        let (hands, start) = (self.0.clone(), crate::policy::ticks::now());
        admission
            .with_clock(move || start + Duration::from_millis(hands.load(StdOrdering::Relaxed)))
    }
}

fn end(admission: &Admission, criticality: Criticality, accepted: u32, not: u32) {
    (0..accepted).for_each(|_| admission.ended(criticality, true));
    (0..not).for_each(|_| admission.ended(criticality, false));
}

/// Uses up the calls of this second that are always admitted.
fn probe(admission: &Admission) {
    for number in 0..4 {
        assert!(admission.is_probe(admission.ticks.elapsed(), Criticality::new(number)));
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let window = Admission::DEFAULT_WINDOW;
    for wrong in [0, 1000, 1099, 100_001, u32::MAX] {
        let refused = Admission::new(wrong, window).map(|_| ());
        assert_eq!(refused, Err(InvalidAdmission::Multiplier(wrong)));
    }
    for wrong in [Duration::ZERO, Duration::from_millis(999), Duration::MAX] {
        let refused = Admission::new(2000, wrong).map(|_| ());
        assert_eq!(refused, Err(InvalidAdmission::Window(wrong)));
    }
}

/// In which second after an outage of ten the last call is refused, at this many calls a second.
fn last_refusal(multiplier: u32, rate: u64, seed: u64) -> u64 {
    let hands = Hands::default();
    let admission = Admission::new(multiplier, Admission::DEFAULT_WINDOW).unwrap();
    let admission = hands.turn(admission).randomness(Randomness::seeded(seed));
    let (mut last, mut passed) = (0, 0);
    for call in 0..rate * 320 {
        let at = call * 1000 / rate;
        hands.forward(at - std::mem::replace(&mut passed, at));
        let is_down = (10_000..20_000).contains(&at);
        match admission.admit(CRITICAL) {
            Ok(()) => admission.ended(CRITICAL, !is_down),
            Err(_) => last = at,
        }
    }
    last.saturating_sub(20_000).div_ceil(1000)
}

/// Below the least multiplier what is refused hardly lets the share of accepted calls rise: with 1
/// it would be minutes later.
#[test]
fn with_the_least_multiplier_an_outage_is_forgotten() {
    let last = last_refusal(1100, 1000, 7);
    assert!((30..150).contains(&last), "{last} s");
}

/// As the guide on overload says.
#[test]
fn after_an_outage_all_is_admitted_in_fifteen_seconds() {
    for (rate, most) in [(10, 10), (30, 10), (50, 15), (100, 15), (1000, 15)] {
        let last = (0..4).map(|seed| last_refusal(2000, rate, seed)).max();
        assert!(last <= Some(most), "{rate} calls a second: {last:?} s");
    }
}

/// (requests - 2 × accepts) / (requests + 1), at most 0.98
#[test]
fn the_chance_of_a_refusal_is_the_formulas() {
    for (accepted, not, chance) in [
        (0, 99, 0.98),
        (0, 999, 0.98),
        (20, 79, 0.59),
        (40, 59, 0.19),
        (49, 50, 0.01),
    ] {
        for (roll, refused) in [(chance - 0.001, true), (chance + 0.001, false)] {
            let admission = Hands::default().admission(2000, roll);
            probe(&admission);
            end(&admission, CRITICAL, accepted, not);
            assert_eq!(
                admission.admit(CRITICAL).is_err(),
                refused,
                "{chance} {roll}"
            );
        }
    }
}

#[test]
fn nothing_is_refused_while_half_is_accepted() {
    let admission = Hands::default().admission(2000, 0.0);
    probe(&admission);
    assert!(admission.admit(CRITICAL).is_ok(), "nothing is known yet");
    end(&admission, CRITICAL, 50, 50);
    assert!(admission.admit(CRITICAL).is_ok());
    end(&admission, CRITICAL, 0, 1);
    assert!(admission.admit(CRITICAL).is_err());
}

/// A server that had few calls, of which one met a connection that was closed.
#[test]
fn three_calls_that_were_not_accepted_refuse_nothing() {
    let admission = Hands::default().admission(2000, 0.0);
    probe(&admission);
    end(&admission, CRITICAL, 0, 3);
    (0..100).for_each(|_| assert!(admission.admit(CRITICAL).is_ok()));
    end(&admission, CRITICAL, 0, 1);
    assert!(admission.admit(CRITICAL).is_err());
}

#[test]
fn a_refused_call_counts_as_a_request() {
    let admission = Hands::default().admission(2000, 0.0);
    probe(&admission);
    end(&admission, CRITICAL, 0, 4);
    let refused = admission.admit(CRITICAL).unwrap_err();
    assert_eq!((refused.requests, refused.accepted), (4, 0));
    let refused = admission.admit(CRITICAL).unwrap_err();
    assert_eq!((refused.requests, refused.accepted), (5, 0));
    assert_eq!(
        refused.to_string(),
        "this client did not send the request: the server accepted 0 of its latest 5 calls \
         (criticality 2)"
    );
    let failure = refused.failure();
    assert_eq!(
        (failure.reason, failure.stage),
        (NOT_ADMITTED, Stage::Dispatch)
    );
    assert!(failure.safe);
}

#[test]
fn the_window_forgets() {
    let hands = Hands::default();
    let admission = hands.admission(2000, 0.0);
    end(&admission, CRITICAL, 0, 100);
    hands.forward(8_999);
    probe(&admission);
    assert!(admission.admit(CRITICAL).is_err());
    // The refused call is still in the window.
    hands.forward(1_001);
    let refused = admission.admit(CRITICAL);
    assert!(refused.is_ok(), "a second passed since one was admitted");
    let counts = admission.window.counts(admission.ticks.elapsed());
    assert_eq!(counts.requests.iter().sum::<u64>(), 1);
    // A part of an earlier round counts nothing.
    hands.forward(100_000);
    assert_eq!(
        admission.window.counts(admission.ticks.elapsed()),
        window::Counts::default()
    );
    admission.ended(CRITICAL, true);
    assert_eq!(
        admission.window.counts(admission.ticks.elapsed()).accepts,
        [0, 0, 1, 0]
    );
}

#[test]
fn one_call_a_second_is_admitted_in_any_case() {
    let hands = Hands::default();
    let admission = hands.admission(2000, 0.0);
    end(&admission, CRITICAL, 0, 10_000);
    let mut admitted = 0;
    for _ in 0..90 {
        admitted += u32::from(admission.admit(CRITICAL).is_ok());
        end(&admission, CRITICAL, 0, 100);
        hands.forward(100);
    }
    assert_eq!(admitted, 10, "after 900 ms each");
}

#[test]
fn a_thread_that_is_late_does_not_erase_newer_counts() {
    let window = window::Window::new(TEN);
    window.add(TEN, CRITICAL, true);
    window.add(Duration::ZERO, CRITICAL, true);
    assert_eq!(window.counts(TEN).requests[2], 1);
}

#[test]
fn an_accept_is_taken_back_where_it_was_counted() {
    const OTHER: Criticality = Criticality::SHEDDABLE;
    let window = window::Window::new(TEN);
    let seen = |at| {
        let counts = window.counts(at);
        let sum = |of: [u64; window::KINDS]| of.iter().sum::<u64>();
        (sum(counts.requests), sum(counts.accepts))
    };
    let (first, later) = (TEN, TEN + TEN / 2);
    window.add(first, CRITICAL, true);
    window.add(later, CRITICAL, true);
    window.add(later, OTHER, true);
    window.take_back(first, later, CRITICAL);
    assert_eq!(seen(later), (3, 2));
    // Nothing is left to take back: it counts as a request.
    window.take_back(first, later, CRITICAL);
    assert_eq!(seen(later), (4, 2));
    // So does a call whose part has left the window, which takes nothing from the others.
    let end = later + TEN - TEN / 10;
    window.take_back(first, end, CRITICAL);
    assert_eq!(seen(end), (4, 2));
}

#[test]
fn counts_of_the_day_before_are_not_taken_for_new_ones() {
    let window = window::Window::new(TEN);
    window.add(Duration::ZERO, CRITICAL, true);
    let later = TEN * (1 << 14);
    assert_eq!(window.counts(later), window::Counts::default());
    window.add(later, CRITICAL, true);
    assert_eq!(window.counts(later).requests[2], 1);
}

/// Rounds have 22 bits.
#[test]
fn a_word_that_was_never_used_counts_when_its_round_repeats() {
    let window = window::Window::new(TEN);
    let before = TEN * ((1 << 22) - 2);
    window.add(before, CRITICAL, true);
    assert_eq!(window.counts(before).requests[2], 1);
}

#[test]
fn a_caller_with_one_call_a_second_is_never_refused() {
    let hands = Hands::default();
    let admission = hands.admission(2000, 0.0);
    for early in [0, 1, 50, 0, 100] {
        end(&admission, CRITICAL, 0, 100);
        assert!(admission.admit(CRITICAL).is_ok());
        hands.forward(1000 - early);
    }
}

#[test]
fn a_low_criticality_does_not_take_a_high_ones_call() {
    let admission = Hands::default().admission(2000, 0.0);
    end(&admission, CRITICAL, 0, 100);
    end(&admission, Criticality::SHEDDABLE, 0, 100);
    let admitted = |criticality| admission.admit(criticality).is_ok();
    assert!(admitted(Criticality::SHEDDABLE));
    assert!(!admitted(Criticality::SHEDDABLE));
    assert!(admitted(CRITICAL));
    assert!(!admitted(CRITICAL));
}

#[test]
fn the_lowest_criticality_is_refused_first() {
    let admission = Hands::default().admission(2000, 0.0);
    probe(&admission);
    // 200 calls of which 60 are accepted: 80 are to be refused, and the lowest has 100.
    end(&admission, Criticality::SHEDDABLE, 20, 80);
    end(&admission, CRITICAL, 40, 60);
    assert!(admission.admit(Criticality::SHEDDABLE).is_err());
    assert!(admission.admit(CRITICAL).is_ok());
    assert!(admission.admit(Criticality::CRITICAL_PLUS).is_ok());
    // 300 more: the lowest no longer covers it.
    end(&admission, CRITICAL, 0, 300);
    assert!(admission.admit(CRITICAL).is_err());
    assert!(admission.admit(Criticality::CRITICAL_PLUS).is_ok());
}

#[test]
fn switched_off_it_counts_and_refuses_nothing() {
    let admission = Admission::off().randomness(Randomness::Fixed(0.0));
    end(&admission, CRITICAL, 0, 100);
    assert!(admission.is_off() && admission.admit(CRITICAL).is_ok());
    admission
        .reconfigure(2000, Admission::DEFAULT_WINDOW)
        .unwrap();
    probe(&admission);
    assert!(admission.admit(CRITICAL).is_ok(), "nothing was counted");
    end(&admission, CRITICAL, 0, 100);
    assert!(admission.admit(CRITICAL).is_err());
    admission.switch_off();
    assert!(admission.admit(CRITICAL).is_ok());
}

#[test]
fn counts_stay_unless_the_window_changes() {
    let admission = Hands::default().admission(2000, 0.0);
    end(&admission, CRITICAL, 3, 4);
    let counts = || admission.window.counts(admission.ticks.elapsed());
    admission
        .reconfigure(3000, Duration::from_secs(10))
        .unwrap();
    assert_eq!(counts().requests[2], 7);
    assert!(admission.reconfigure(1, Duration::from_secs(20)).is_err());
    assert_eq!(counts().requests[2], 7);
    admission
        .reconfigure(3000, Duration::from_secs(20))
        .unwrap();
    assert_eq!(counts().requests[2], 0);
}

/// An error is an answer too: only a server that says it is overloaded, or says nothing, refuses.
#[test]
fn what_the_server_answers_was_accepted() {
    use crate::failure::reason::{CIRCUIT_BREAKER_OPEN, KV_LOCKED, KV_TEMPORARY_FAILURE, UNKNOWN};
    let last = |reason, stage| {
        was_accepted(StopReason::Fatal, true, || {
            Some(Failure::new(reason, stage))
        })
    };
    assert_eq!(last(UNKNOWN, Stage::Response), Some(true));
    assert_eq!(last(KV_LOCKED, Stage::Response), Some(true));
    assert_eq!(last(KV_TEMPORARY_FAILURE, Stage::Response), Some(false));
    assert_eq!(
        last(UNKNOWN, Stage::InFlight),
        Some(false),
        "the connection broke"
    );
    assert_eq!(last(CIRCUIT_BREAKER_OPEN, Stage::Dispatch), None);
    crate::retry_reasons! {
        BODY_FAILED(false, false, request);
        NO_SERVER(true, false, not_accepted);
    }
    assert_eq!(last(NO_SERVER, Stage::Response), Some(false));
    assert_eq!(
        last(BODY_FAILED, Stage::InFlight),
        None,
        "the request's own"
    );
    let returned = |reason| {
        was_accepted(StopReason::Deadline, true, || {
            Some(Failure::new(reason, Stage::Response))
        })
    };
    assert_eq!(returned(UNKNOWN), Some(true), "the next delay did not fit");
    assert_eq!(returned(KV_TEMPORARY_FAILURE), Some(false));
    let ended = |stopped, sent| was_accepted(stopped, sent, || None);
    assert_eq!(ended(StopReason::Success, true), Some(true));
    assert_eq!(ended(StopReason::Deadline, true), Some(false));
    assert_eq!(
        ended(StopReason::Deadline, false),
        None,
        "it was over before it began"
    );
    assert_eq!(ended(StopReason::Cancelled, true), None);
    assert_eq!(
        ended(StopReason::Attempts, true),
        None,
        "no failure is known"
    );
}

#[test]
fn another_one_has_the_settings_and_its_own_counts() {
    let hands = Hands::default();
    let first = hands.admission(2000, 0.0);
    end(&first, CRITICAL, 0, 10);
    let second = first.another();
    assert!(second.admit(CRITICAL).is_ok());
    probe(&second);
    end(&second, CRITICAL, 4, 4);
    assert!(second.admit(CRITICAL).is_ok(), "half is accepted");
    first.reconfigure(1100, Duration::from_secs(10)).unwrap();
    second.follow(&first);
    assert!(second.admit(CRITICAL).is_err(), "less than 1 of 1.1 is");
    first.switch_off();
    second.follow(&first);
    assert!(second.is_off());
}
