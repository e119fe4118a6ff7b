//! What a hedge delay is asked, and what its answers do.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::script::ms;
use super::simulator::start;
use crate::driver::{CallEffects, HedgeDriver, Permit};
use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::machine::{Due, Facts};
use crate::policy::{HedgeAdmission, HedgeDelay, HedgeView};
use crate::{
    AttemptKind, CallDeadline, Failure, HedgePolicy, Idempotency, RetryThrottle, Stage, StopReason,
    Verdict,
};

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

#[derive(Default)]
struct Call(RefCell<Vec<StopReason>>);

impl CallEffects for Call {
    fn throttle(&self) -> Option<&dyn RetryThrottle> {
        None
    }

    fn limit(&self) -> Option<CallDeadline> {
        None
    }

    fn attempt(&self) -> u32 {
        1
    }

    fn hedge_refused(&self, stopped: StopReason) {
        self.0.borrow_mut().push(stopped);
    }
}

/// A call of three attempts whose first is silent, and what is due at each millisecond.
fn run(answers: Vec<HedgeAdmission>, until: u64) -> (Arc<Script>, Call, Vec<u64>) {
    let script = Arc::new(Script {
        answers: Mutex::new(answers),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(3, script.clone());
    let (call, mut sent) = (Call::default(), Vec::new());
    let mut driver = HedgeDriver::new(&policy, Idempotency::Idempotent);
    let begin: Instant = start();
    driver.machine.pending(begin, &policy);
    for at in 0..until {
        let now = begin + ms(at);
        while let Due::Plan(kind) = driver.due(now, &policy, &call) {
            assert_eq!(kind, AttemptKind::Hedge);
            let permit = driver.permit(now, kind, &call);
            assert!(matches!(permit, Permit::Send(_)), "{permit:?}");
            sent.push(at);
        }
    }
    (script, call, sent)
}

#[test]
fn a_delay_sees_the_attempts_and_the_time_since_the_first() {
    let (script, call, sent) = run(Vec::new(), 40);
    assert_eq!(sent, [10, 20]);
    let planned = script.planned.lock().unwrap();
    assert_eq!(planned[..], [(1, 1, 0), (2, 1, 10)]);
    let due = script.due.lock().unwrap();
    assert_eq!(due[..], [(1, 1, 10), (2, 2, 20)]);
    assert_eq!(call.0.take(), []);
}

#[test]
fn a_hedge_that_is_held_back_is_reported_once_and_asked_again() {
    let held = HedgeAdmission::After(ms(3));
    let (script, call, sent) = run(vec![held, held], 30);
    assert_eq!(sent, [16, 26]);
    assert_eq!(call.0.take(), [StopReason::Throttled]);
    let due = script.due.lock().unwrap();
    let times: Vec<_> = due.iter().map(|asked| asked.2).collect();
    assert_eq!(times, [10, 13, 16, 26]);
}

#[test]
fn a_hedge_that_is_not_for_this_call_is_not_asked_again() {
    let (script, call, sent) = run(vec![HedgeAdmission::Never], 60);
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(call.0.take(), [StopReason::Throttled]);
    assert_eq!(script.due.lock().unwrap().len(), 1);
}

#[test]
fn beside_nothing_in_flight_the_delay_is_not_asked() {
    let script = Arc::new(Script {
        answers: Mutex::new(vec![HedgeAdmission::Never]),
        ..Script::default()
    });
    let policy = HedgePolicy::with_delay(3, script.clone());
    let call = Call::default();
    let mut driver = HedgeDriver::new(&policy, Idempotency::Idempotent);
    driver.machine.pending(start(), &policy);
    let busy = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let facts = Facts::new(start(), 1, AttemptKind::Initial);
    driver.failed(facts, &Verdict::Retry(busy), &policy, &call);
    // The failure asks for the second attempt, and its service fails.
    assert!(matches!(driver.due(start(), &policy, &call), Due::Plan(_)));
    let withdrawn = driver.withdrawn(StopReason::Fatal, &call);
    assert_eq!(withdrawn, Permit::Refused, "a third one is planned");
    let third = driver.due(start() + ms(10), &policy, &call);
    assert!(matches!(third, Due::Plan(_)), "{third:?}");
    assert_eq!(script.due.lock().unwrap().len(), 0);
}
