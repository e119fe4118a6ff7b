use std::sync::Arc;

use super::*;
use crate::RetryInfo;
use crate::call::attempts::ConfigWaiter;
use crate::policy::throttle::TokenBucket;
use crate::{AttemptKind, CallDeadline, HasCallContext, RetryThrottle};
use crate::{Call, policy::RoutePolicy};

fn bucket() -> Arc<dyn RetryThrottle> {
    Arc::new(TokenBucket::new(10, 100).unwrap())
}

#[test]
fn the_callers_stamp_beats_the_policy_and_the_policy_the_layer() {
    let (caller, policy, layer) = (bucket(), bucket(), bucket());
    let mut context = CallContext::default();
    context.stamp_throttle(&ThrottleStamp::new(Arc::clone(&layer)));
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &layer));
    context.stamp_policy(Arc::new(
        RoutePolicy::new("r").with_throttle(Arc::clone(&policy)),
    ));
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &policy));
    context.set_throttle(Arc::clone(&caller));
    context.stamp_throttle(&ThrottleStamp::new(Arc::clone(&layer)));
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &caller));
}

#[test]
fn a_cloned_template_never_shares_its_calls_block() {
    let mut template = Call::new("get");
    let watch = RetryInfo::track(&mut template);
    let (mut one, mut two) = (template.clone(), template);
    one.context_mut().start_attempt(1, AttemptKind::Initial);
    two.context_mut().start_attempt(1, AttemptKind::Initial);
    two.context_mut().start_attempt(2, AttemptKind::Retry);
    assert_eq!(one.context().unwrap().info().attempts(), 1);
    assert_eq!(
        watch.info().attempts(),
        2,
        "the watch shows the latest call"
    );
}

#[test]
fn a_request_cloned_between_layers_becomes_its_own_call() {
    let mut one = CallContext::default();
    one.stamp_throttle(&ThrottleStamp::new(bucket()));
    let mut two = one.clone();
    one.claim();
    one.start_attempt(1, AttemptKind::Initial);
    two.claim();
    assert_eq!(two.info().attempts(), 0);
    assert!(two.throttle().is_some());
}

#[test]
fn a_handle_never_refers_to_the_call_of_the_cloned_request() {
    let mut one = CallContext::default();
    drop(one.begin());
    let mut two = one.clone();
    let mut three = one.clone();
    one.claim_first();
    let handle = two.begin();
    two.claim_first();
    one.settle_success(false);
    assert!(handle.is_claimed() && handle.in_flight());
    assert_eq!(handle.info().stopped(), None);
    three.claim_first();
    assert!(!three.is_copy_of(&one), "each acts on its own call");
    let below = one.begin();
    assert!(!below.in_flight(), "below its own recovery layer it stays");
}

#[test]
fn of_two_threads_one_claims_a_block() {
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let mut one = CallContext::default();
        drop(one.begin());
        let mut two = one.clone();
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                one.claim_first();
            });
            both.wait();
            two.claim_first();
        });
        assert!(!one.is_copy_of(&two));
    }
}

#[test]
fn of_two_limits_the_earlier_counts() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = std::time::Instant::now();
    let later = now + std::time::Duration::from_secs(1);
    let mut context = CallContext::default();
    context
        .stamp_limit(CallDeadline::enforced(later))
        .stamp_limit(CallDeadline::stamped(now));
    assert_eq!(context.limit(), Some(CallDeadline::stamped(now)));
    context.stamp_limit(CallDeadline::enforced(now));
    assert_eq!(context.limit(), Some(CallDeadline::enforced(now)));
}

#[test]
fn data_is_found_by_its_type() {
    let mut context = CallContext::default();
    context.set_data(7_u8).set_data("a layer's");
    assert_eq!(context.data::<u8>(), Some(&7));
    assert_eq!(context.data::<u16>(), None);
    let earlier = context.clone();
    context.set_data(8_u8);
    assert_eq!(context.data::<u8>(), Some(&8), "the last of its type");
    assert_eq!(context.data::<&str>(), Some(&"a layer's"));
    assert_eq!(earlier.data::<u8>(), Some(&7), "a clone keeps its own");
}

/// A waiter with a probe for whether it was dropped.
fn waiter() -> (ConfigWaiter, std::sync::Weak<()>) {
    let held = Arc::new(());
    let weak = Arc::downgrade(&held);
    let waiter = Box::pin(async move {
        let _held = held;
        std::future::pending().await
    });
    (waiter, weak)
}

#[test]
fn a_waiter_that_arrives_after_the_calls_end_is_dropped() {
    type End = fn(&mut CallContext);
    let ends: [End; 3] = [
        |context| context.settle_success(false),
        |context| context.settle_success(true),
        |context| context.begin().stop(crate::StopReason::Attempts),
    ];
    for end in ends {
        let mut request = Call::new(());
        let watch = RetryInfo::track(&mut request);
        let mut context = request.into_parts().1;
        context.claim_first();
        let late = context.reporter();
        end(&mut context);
        let (waiter, alive) = waiter();
        late.config_coming(waiter);
        assert!(alive.upgrade().is_none());
        assert_eq!(watch.info().attempts(), 1);
        assert!(context.take_config_waiter().is_none());
    }
}

#[test]
fn a_waiter_of_an_attempt_that_is_over_is_dropped() {
    let mut context = CallContext::default();
    context.claim_first();
    let late = context.reporter();
    context.shared().unwrap().settled(context.seat());
    context.start_attempt(2, AttemptKind::Retry);
    let (first, first_alive) = waiter();
    late.config_coming(first);
    assert!(first_alive.upgrade().is_none());
    let (second, second_alive) = waiter();
    context.reporter().config_coming(second);
    assert!(second_alive.upgrade().is_some());
    drop(context.take_config_waiter().unwrap());
    assert!(second_alive.upgrade().is_none());
}

#[test]
fn a_waiter_that_no_one_took_is_dropped_with_the_call() {
    let mut request = Call::new(());
    let watch = RetryInfo::track(&mut request);
    let mut context = request.into_parts().1;
    context.claim_first();
    let (waiter, alive) = waiter();
    context.reporter().config_coming(waiter);
    assert!(alive.upgrade().is_some());
    context.settle_success(false);
    context.retire();
    assert!(alive.upgrade().is_none());
    assert_eq!(watch.info().attempts(), 1);
}
