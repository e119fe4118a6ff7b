//! What bounds the number of attempts, and what they spend in the throttle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::model::attempts;
use super::script::{Line, attempt, every_attempt_from, ms};
use super::simulator::{Call, call, start};
use crate::driver::{Effects, RetryDriver};
use crate::failure::reason::{KV_NOT_MY_VBUCKET, UNKNOWN};
use crate::machine::FailedAttempt;
use crate::policy::strategy::{BestEffort, ControlledBackoff};
use crate::policy::throttle::Settled;
use crate::{
    CallContext, Failure, HedgePolicy, Idempotency, RetryThrottle, Stage, StopReason, Transparent,
    Verdict,
};

/// Only the back-off bounds how often such a call is sent.
#[test]
fn pushback_makes_no_retry_without_a_bound_faster() {
    for reason in [UNKNOWN, KV_NOT_MY_VBUCKET] {
        let plain = [every_attempt_from(1).fails(reason)];
        let pushed = [every_attempt_from(1).fails(reason).come_back_in(0)];
        let within = || call().within(5000);
        let sent = within().retried(ControlledBackoff, &plain).sent_ms();
        assert_eq!(sent[..5], [0, 1, 11, 61, 161]);
        assert_eq!(within().retried(ControlledBackoff, &pushed).sent_ms(), sent);
        let late = [attempt(1).fails(reason).come_back_in(300)];
        assert_eq!(
            within().retried(ControlledBackoff, &late).sent_ms(),
            [0, 300]
        );
    }
    let best_effort = [every_attempt_from(1).fails(UNKNOWN).come_back_in(5)];
    let story = call().within(1500).retried(BestEffort::new(), &best_effort);
    assert_eq!(story.sent_ms()[..6], [0, 5, 10, 15, 23, 39]);
    let hedged = [every_attempt_from(1)
        .fails(KV_NOT_MY_VBUCKET)
        .come_back_in(0)];
    let story = call()
        .within(5000)
        .hedged(&HedgePolicy::new(1, ms(1)), &hedged);
    assert_eq!(story.sent_ms()[..5], [0, 1, 11, 61, 161]);
}

/// Allows everything and counts what it spends.
#[derive(Debug, Default)]
struct Paid(AtomicU32);

impl RetryThrottle for Paid {
    fn settled(&self, _: Settled<'_>) {}

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        failure.is_none_or(|failure| failure.code != Some(9))
    }

    fn refund(&self, _: Option<&Failure>) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_call_dropped_after_its_retry_went_out_gets_nothing_back() {
    let paid = |goes_out: bool| {
        let throttle = Arc::new(Paid::default());
        let mut context = CallContext::default();
        context.set_idempotency(Idempotency::Idempotent);
        context.set_throttle(Arc::clone(&throttle) as Arc<dyn RetryThrottle>);
        context.claim_first();
        let effects = Effects {
            context: &context,
            transparent: true,
            observer: None,
        };
        let mut driver = RetryDriver::default();
        let verdict = Verdict::Retry(Failure::new(UNKNOWN, Stage::Response));
        let mut failed = FailedAttempt::new(&effects.facts(start()), &verdict).unwrap();
        effects.failed(&mut driver, &mut failed, &attempts(3));
        if goes_out {
            driver.sent();
        }
        effects.unsent(&mut driver, StopReason::Cancelled);
        throttle.0.load(Ordering::Relaxed)
    };
    assert_eq!([true, false].map(paid), [1, 0]);
}

#[test]
fn a_throttle_pays_only_for_attempts_that_are_sent() {
    let fails = || every_attempt_from(1).fails(UNKNOWN);
    let paid = |call: Call, script: &[Line]| {
        let throttle = Arc::new(Paid::default());
        let story = call.throttled_by(&throttle).retried(attempts(3), script);
        (throttle.0.load(Ordering::Relaxed), story)
    };
    assert_eq!(paid(call(), &[fails()]).0, 2);
    assert_eq!(paid(call().not_replayable(), &[fails()]).0, 0);
    assert_eq!(paid(call().within(10), &[fails()]).0, 0);
    assert_eq!(paid(call().asked_within(10), &[fails()]).0, 0);
    let late = fails().ready_after(50);
    assert_eq!(paid(call().within(40), &[late]).0, 0);
    let unseen = fails().unseen(Transparent::Once);
    assert_eq!(paid(call(), &[unseen]).0, 2, "the transparent one is free");
    assert_eq!(paid(call(), &[fails().with_code(9)]).1.sent_ms(), [0]);
    let refused = paid(call(), &[fails().with_code(9)]).1;
    assert_eq!(refused.info.stopped(), Some(StopReason::Throttled));
}
