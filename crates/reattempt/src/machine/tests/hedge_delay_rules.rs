//! What a hedge delay is asked, and what its answers do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::script::ms;
use super::simulator::start;
use crate::driver::HedgeDriver;
use crate::failure::reason::{KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, UNKNOWN};
use crate::machine::{Due, Facts, FailedAttempt, HedgeMachine, Planned, Withdrawn};
use crate::policy::{AttemptEnd, HedgeAdmission, HedgeDelay, HedgeView};
use crate::{AttemptKind, Failure, HedgePolicy, Idempotency, Stage, StopReason, Verdict};

/// Attempts, attempts in flight, milliseconds since the first.
type Asked = (u32, u32, u128);

/// Always 10 ms, and each hedge by the next of these answers, from the end; then it is sent.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<Vec<HedgeAdmission>>,
    planned: Mutex<Vec<Asked>>,
    due: Mutex<Vec<Asked>>,
}

fn asked(view: &HedgeView<'_>) -> Asked {
    let elapsed = view.elapsed.as_millis();
    (view.attempts, view.in_flight, elapsed)
}

impl HedgeDelay for Script {
    fn delay(&self, view: &HedgeView<'_>) -> Option<Duration> {
        self.planned.lock().unwrap().push(asked(view));
        Some(ms(10))
    }

    fn admit(&self, view: &HedgeView<'_>) -> HedgeAdmission {
        self.due.lock().unwrap().push(asked(view));
        let next = self.answers.lock().unwrap().pop();
        next.unwrap_or(HedgeAdmission::Send)
    }
}

/// A call of three attempts whose first is silent: how many hedges are reported as held back, and
/// when one is sent.
fn run(answers: Vec<HedgeAdmission>, until: u64) -> (Arc<Script>, u32, Vec<u64>) {
    let script = Arc::new(Script {
        answers: Mutex::new(answers),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(3, script.clone());
    let (mut reported, mut sent) = (0, Vec::new());
    let mut driver = HedgeDriver::new(&policy, Idempotency::Idempotent);
    let begin: Instant = start();
    driver.machine.pending(begin, &policy);
    for at in 0..until {
        let now = begin + ms(at);
        loop {
            match driver.machine.due(now, &policy) {
                Due::Plan(planned) => {
                    assert_eq!(planned, Planned::Hedge);
                    let permit = driver.permit(now, planned, None, None);
                    assert!(permit.is_ok(), "{permit:?}");
                    sent.push(at);
                }
                Due::HeldBack { first } => reported += u32::from(first),
                Due::Nothing => break,
            }
        }
    }
    (script, reported, sent)
}

#[test]
fn a_delay_sees_the_attempts_and_the_time_since_the_first() {
    let (script, reported, sent) = run(Vec::new(), 40);
    assert_eq!(sent, [10, 20]);
    let planned = script.planned.lock().unwrap();
    assert_eq!(planned[..], [(1, 1, 0), (2, 1, 10)]);
    let due = script.due.lock().unwrap();
    assert_eq!(due[..], [(1, 1, 10), (2, 2, 20)]);
    assert_eq!(reported, 0);
}

/// An open circuit, or a shed request.
#[test]
fn time_runs_from_a_first_attempt_that_fails_at_once() {
    let script = Arc::new(Script::default());
    let policy = HedgePolicy::with_delay(3, script.clone());
    let mut machine = HedgeMachine::for_call(&policy, Idempotency::Idempotent);
    let facts = Facts::new(start(), 1, AttemptKind::Initial);
    let verdict = Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response));
    let mut failed = FailedAttempt::new(&facts, &verdict).unwrap();
    machine.failed(&mut failed);
    machine.decide(&mut failed, &policy);
    for at in [0, 10] {
        let due = machine.due(start() + ms(at), &policy);
        let Due::Plan(planned) = due else {
            panic!("{due:?}")
        };
        machine.sent(planned);
    }
    assert_eq!(script.due.lock().unwrap()[..], [(2, 1, 10)]);
}

/// So that no caller waits for a probe of an ejected backend.
#[test]
fn the_last_attempt_and_one_beside_no_other_may_not_lose() {
    let policy = HedgePolicy::new(3, ms(10));
    let machine = || HedgeMachine::for_call(&policy, Idempotency::Idempotent);
    let start = start();
    let hedge = |machine: &mut HedgeMachine, at: u64| {
        let due = machine.due(start + ms(at), &policy);
        let Due::Plan(planned) = due else {
            panic!("{due:?}")
        };
        machine.sent(planned);
        machine.may_lose()
    };
    let mut beside = machine();
    beside.pending(start, &policy);
    assert!(hedge(&mut beside, 10));
    assert!(!hedge(&mut beside, 20), "the last");
    let mut alone = machine();
    alone.pending(start, &policy);
    let facts = Facts::new(start, 1, AttemptKind::Initial);
    let verdict = Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response));
    let mut failed = FailedAttempt::new(&facts, &verdict).unwrap();
    alone.failed(&mut failed);
    alone.decide(&mut failed, &policy);
    assert!(!hedge(&mut alone, 0), "the first has failed");
}

#[test]
fn a_hedge_that_is_held_back_is_reported_once_and_asked_again() {
    let held = HedgeAdmission::After(ms(3));
    let (script, reported, sent) = run(vec![held, held], 30);
    assert_eq!(sent, [16, 26]);
    assert_eq!(reported, 1);
    let due = script.due.lock().unwrap();
    let times: Vec<_> = due.iter().map(|asked| asked.2).collect();
    assert_eq!(times, [10, 13, 16, 26]);
}

/// Else the layer would ask again within one poll.
#[test]
fn one_that_is_held_back_for_no_time_waits_a_millisecond() {
    let script = Arc::new(Script {
        answers: Mutex::new(vec![HedgeAdmission::After(ms(0))]),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(3, script);
    let mut machine = HedgeMachine::for_call(&policy, Idempotency::Idempotent);
    machine.pending(start(), &policy);
    let due = machine.due(start() + ms(10), &policy);
    assert!(matches!(due, Due::HeldBack { first: true }), "{due:?}");
    assert_eq!(machine.wake(), Some(start() + ms(11)));
}

#[test]
fn a_hedge_that_is_not_for_this_call_is_not_asked_again() {
    let (script, reported, sent) = run(vec![HedgeAdmission::Never], 60);
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(reported, 1);
    assert_eq!(script.due.lock().unwrap().len(), 1);
}

#[test]
fn beside_nothing_in_flight_the_delay_is_not_asked() {
    let script = Arc::new(Script {
        answers: Mutex::new(vec![HedgeAdmission::Never]),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(3, script.clone());
    let mut driver = HedgeDriver::new(&policy, Idempotency::Idempotent);
    driver.machine.pending(start(), &policy);
    let busy = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let facts = Facts::new(start(), 1, AttemptKind::Initial);
    let mut failed = FailedAttempt::new(&facts, &Verdict::Retry(busy)).unwrap();
    driver.failed(&mut failed, &policy, None);
    // The failure asks for the second attempt, and its service fails.
    let second = driver.machine.due(start(), &policy);
    assert!(matches!(second, Due::Plan(_)), "{second:?}");
    let withdrawn = driver.withdrawn(StopReason::Fatal, None);
    let then = Withdrawn::OthersGoOn;
    assert_eq!(withdrawn.then, then, "a third one is planned");
    let third = driver.machine.due(start() + ms(10), &policy);
    assert!(matches!(third, Due::Plan(_)), "{third:?}");
    assert_eq!(script.due.lock().unwrap().len(), 0);
}

#[test]
fn beside_a_planned_retry_the_delay_is_asked() {
    let script = Arc::new(Script {
        answers: Mutex::new(vec![HedgeAdmission::Never]),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(2, script.clone());
    let mut driver = HedgeDriver::new(&policy, Idempotency::Idempotent);
    driver.machine.pending(start(), &policy);
    let moved = Failure::new(KV_NOT_MY_VBUCKET, Stage::Response);
    let fails = |driver: &mut HedgeDriver, at: u64, attempt, kind| {
        let facts = Facts::new(start() + ms(at), attempt, kind);
        let mut failed = FailedAttempt::new(&facts, &Verdict::Retry(moved)).unwrap();
        driver.failed(&mut failed, &policy, None);
        driver.machine.wake().unwrap()
    };
    let again = fails(&mut driver, 2, 1, AttemptKind::Initial);
    let due = driver.machine.due(again, &policy);
    let Due::Plan(retry) = due else {
        panic!("{due:?}")
    };
    assert!(driver.permit(again, retry, None, None).is_ok());
    // The next retry is due later than the hedge.
    let hedge = fails(&mut driver, 4, 2, AttemptKind::Retry);
    assert_eq!(hedge, again + ms(10));
    let due = driver.machine.due(hedge, &policy);
    assert_eq!(due, Due::HeldBack { first: true });
    assert!(driver.machine.wake() > Some(hedge), "the retry is planned");
}

#[test]
fn a_hedge_delay_learns_only_of_attempts_that_left() {
    let learned = |cut_off, stage| {
        let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
        facts.cut_off = cut_off;
        let verdict = Verdict::Retry(Failure::new(UNKNOWN, stage));
        FailedAttempt::new(&facts, &verdict).unwrap().learned()
    };
    assert_eq!(learned(false, Stage::Dispatch), None);
    assert_eq!(learned(false, Stage::InFlight), Some(AttemptEnd::Failed));
    assert_eq!(learned(false, Stage::Response), Some(AttemptEnd::Failed));
    for stage in [Stage::Dispatch, Stage::InFlight, Stage::Response] {
        assert_eq!(learned(true, stage), Some(AttemptEnd::Dropped));
    }
}
