use std::sync::Arc;

use super::*;
use crate::RetryInfo;
use crate::attempt::Backend;
use crate::call::state::ConfigWaiter;
#[cfg(feature = "tokio")]
use crate::policy::admission::Admission;
use crate::policy::throttle::TokenBucket;
use crate::{AttemptKind, CallDeadline, HasCallContext, RetryThrottle};
use crate::{Call, policy::RoutePolicy};

fn bucket() -> Arc<dyn RetryThrottle> {
    Arc::new(TokenBucket::new(10, 100).unwrap())
}

#[test]
fn the_callers_option_beats_the_policy_and_the_policy_the_layer() {
    let (caller, policy, layer) = (bucket(), bucket(), bucket());
    let mut context = CallContext::default();
    context.attach_throttle(&layer);
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &layer));
    context.attach_policy(Arc::new(
        RoutePolicy::new("r").with_throttle(Arc::clone(&policy)),
    ));
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &policy));
    context.set_throttle(Arc::clone(&caller));
    context.attach_throttle(&layer);
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &caller));
}

#[test]
fn a_cloned_template_never_shares_its_calls_state() {
    let mut template = Call::new("get");
    let handle = RetryInfo::track(&mut template);
    let (mut one, mut two) = (template.clone(), template);
    one.context_mut().start_attempt(1, AttemptKind::Initial);
    two.context_mut().start_attempt(1, AttemptKind::Initial);
    two.context_mut().start_attempt(2, AttemptKind::Retry);
    assert_eq!(one.context().unwrap().info().attempts(), 1);
    assert_eq!(
        handle.info().attempts(),
        2,
        "the handle shows the latest call"
    );
}

#[test]
fn a_request_cloned_between_layers_becomes_its_own_call() {
    let mut one = CallContext::default();
    one.attach_throttle(&bucket());
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
fn a_clone_before_the_recovery_layer_is_another_call() {
    let (policy, throttle) = (Arc::new(RoutePolicy::new("r")), bucket());
    let mut original = CallContext::default();
    original.set_data(7_u8);
    let steps: [&dyn Fn(&mut CallContext); 4] = [
        &|context| _ = context.attach_policy(Arc::clone(&policy)),
        &|context| drop(context.begin()),
        &|context| _ = context.attach_throttle(&throttle),
        &|context| _ = context.set_data("later"),
    ];
    for step in steps {
        let mut clone = original.clone();
        clone.claim_first();
        assert_eq!(original.info().attempts(), 0, "the clone is not this call");
        assert_eq!(clone.data::<u8>(), Some(&7), "with the same options");
        let had_throttle = clone.throttle().is_some();
        step(&mut original);
        assert_eq!(clone.data::<&str>(), None, "a later write is not its own");
        assert_eq!(clone.throttle().is_some(), had_throttle);
    }
    let clone = original.clone();
    assert!(Arc::ptr_eq(clone.throttle().unwrap(), &throttle));
    assert!(Arc::ptr_eq(clone.policy().unwrap(), &policy));
}

#[test]
fn options_set_below_a_handle_belong_to_its_call() {
    let mut context = CallContext::default();
    let handle = context.begin();
    let throttle = bucket();
    context.attach_throttle(&throttle);
    context.set_data(7_u8);
    context.claim_first();
    assert!(handle.is_claimed());
    assert!(Arc::ptr_eq(context.throttle().unwrap(), &throttle));
    let mut attempt = context.clone();
    attempt.set_data(8_u8);
    assert_eq!(context.data::<u8>(), Some(&7), "each attempt has its own");
    attempt.reporter().forbid();
    assert!(context.report().forbidden, "it reports to the same call");
    assert_eq!(attempt.data::<u8>(), Some(&8));
}

#[test]
fn a_tracked_call_is_freed_with_its_handle() {
    let data = Arc::new(());
    let mut request = Call::new(());
    let handle = RetryInfo::track(&mut request);
    request.context_mut().set_data(Arc::clone(&data));
    drop(request.context_mut().begin());
    request.context_mut().claim_first();
    drop(request);
    assert_eq!(handle.info().attempts(), 1);
    drop(handle);
    assert_eq!(Arc::strong_count(&data), 1);
}

#[test]
fn a_policy_of_an_earlier_call_is_not_the_next_ones() {
    let (policy, throttle) = (Arc::new(RoutePolicy::new("r")), bucket());
    let mut first = CallContext::default();
    first
        .attach_policy(Arc::clone(&policy))
        .attach_throttle(&throttle);
    drop(first);
    let mut second = CallContext::default();
    drop(second.begin());
    assert!(second.policy().is_none() && second.throttle().is_none());
    assert!(second.clone().policy().is_none());
    second.attach_throttle(&throttle);
    assert!(second.policy().is_none() && !second.has_policy());
    assert!(Arc::ptr_eq(second.throttle().unwrap(), &throttle));
}

#[test]
fn of_two_deadlines_the_earlier_counts() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = std::time::Instant::now();
    let later = now + std::time::Duration::from_secs(1);
    let mut context = CallContext::default();
    context
        .attach_deadline(CallDeadline::enforced(later))
        .attach_deadline(CallDeadline::attached(now));
    assert_eq!(context.deadline(), Some(CallDeadline::attached(now)));
    context.attach_deadline(CallDeadline::enforced(now));
    assert_eq!(context.deadline(), Some(CallDeadline::enforced(now)));
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
        |context| {
            context.settle_success(false);
        },
        |context| {
            context.settle_success(true);
        },
        |context| context.begin().stop(crate::StopReason::Attempts),
    ];
    for end in ends {
        let mut request = Call::new(());
        let handle = RetryInfo::track(&mut request);
        let mut context = request.into_parts().1;
        context.claim_first();
        let late = context.reporter();
        end(&mut context);
        let (waiter, alive) = waiter();
        late.config_coming(waiter);
        assert!(alive.upgrade().is_none());
        assert_eq!(handle.info().attempts(), 1);
        assert!(context.take_config_waiter().is_none());
    }
}

#[test]
fn a_waiter_of_an_attempt_that_is_over_is_dropped() {
    let mut context = CallContext::default();
    context.claim_first();
    let late = context.reporter();
    context.end_attempt();
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
    let handle = RetryInfo::track(&mut request);
    let mut context = request.into_parts().1;
    context.claim_first();
    let (waiter, alive) = waiter();
    context.reporter().config_coming(waiter);
    assert!(alive.upgrade().is_some());
    context.settle_success(false);
    assert!(alive.upgrade().is_none());
    assert_eq!(handle.info().attempts(), 1);
}

#[test]
fn a_tracked_call_keeps_neither_options_nor_itself() {
    let held = Arc::new(());
    let begin: [fn(&mut CallContext); 3] = [
        |_| (),
        |context| drop(context.begin()),
        |context| drop((context.reporter(), context.begin())),
    ];
    for begin in begin {
        let mut request = Call::new(());
        let handle = RetryInfo::track(&mut request);
        let throttle = bucket();
        let mut context = request.into_parts().1;
        context.set_data(Arc::clone(&held));
        begin(&mut context);
        context.attach_throttle(&throttle);
        context.claim_first();
        context.settle_success(false);
        assert!(context.data::<Arc<()>>().is_some());
        drop(context);
        assert_eq!(handle.info().attempts(), 1);
        assert_eq!(Arc::strong_count(&held), 1, "the handle keeps no user data");
        assert_eq!(Arc::strong_count(&throttle), 1, "nor a throttle");
        let call = handle.weak().expect("the call was seen");
        drop(handle);
        assert!(call.upgrade().is_none(), "the call is freed");
    }
}

#[test]
fn a_handle_shows_the_call_that_began_last() {
    let mut request = Call::new(());
    let handle = RetryInfo::track(&mut request);
    let mut original = request.into_parts().1;
    drop(original.begin());
    let mut copy = original.clone();
    original.claim_first();
    original.start_attempt(2, AttemptKind::Retry);
    assert_eq!(handle.info().attempts(), 2);
    drop(copy.begin());
    assert_eq!(handle.info().attempts(), 0, "the copy began");
    copy.claim_first();
    original.start_attempt(3, AttemptKind::Retry);
    assert_eq!(handle.info().attempts(), 1);
    assert_eq!(original.info().attempts(), 3);
}

#[test]
fn a_layer_below_a_handle_watches_the_same_call() {
    let mut request = Call::new(());
    let caller = RetryInfo::track(&mut request);
    let handle = request.context_mut().begin();
    let layer = RetryInfo::track(&mut request);
    let mut context = request.into_parts().1;
    context.claim_first();
    let attempt = RetryInfo::track(&mut Call::with_context((), context.clone()));
    context.start_attempt(2, AttemptKind::Retry);
    for info in [caller.info(), handle.info(), layer.info(), attempt.info()] {
        assert_eq!(info.attempts(), 2);
    }
}

#[test]
fn an_earlier_calls_options_stay_out_of_a_state_beside() {
    let (policy, old, new) = (Arc::new(RoutePolicy::new("r")), bucket(), bucket());
    let mut first = CallContext::default();
    first.attach_policy(policy).attach_throttle(&old);
    drop(first);
    let mut second = CallContext::default();
    let handle = second.begin();
    second.set_data(7_u8);
    assert!(second.policy().is_none() && second.throttle().is_none());
    second.attach_throttle(&new);
    assert!(second.policy().is_none());
    assert!(Arc::ptr_eq(second.throttle().unwrap(), &new));
    second.claim_first();
    assert!(second.clone().policy().is_none() && handle.is_claimed());
}

#[test]
fn reports_below_changed_options_reach_the_call() {
    let mut context = CallContext::default();
    let handle = context.begin();
    context.set_policy(Arc::new(RoutePolicy::new("r")));
    context.claim_first();
    let mut attempt = context.clone();
    attempt.set_data(7_u8).set_throttle(bucket());
    let reporter = attempt.reporter();
    drop(attempt);
    reporter.pushback(crate::ServerPushback::Stop);
    reporter.stage(crate::Stage::Dispatch);
    assert_eq!(context.report().pushback, Some(crate::ServerPushback::Stop));
    assert!(!handle.in_flight(), "the attempt did not leave");
    context.start_attempt(2, AttemptKind::Hedge);
    assert!(handle.in_flight());
    reporter.forbid();
    assert!(!context.report().forbidden, "it reports on its own attempt");
}

/// Whether it ended before or after the recovery layer committed it, well or not.
#[test]
fn the_end_of_a_layers_own_response_is_not_counted() {
    let failure = crate::Failure::new(crate::reason::UNKNOWN, crate::Stage::Response);
    let (good, bad) = (crate::Verdict::Success, crate::Verdict::Retry(failure));
    for (is_own, end, tokens) in [
        (false, good, 9_100),
        (false, bad, 8_000),
        (true, good, 9_000),
        (true, bad, 9_000),
    ] {
        for ends_first in [true, false] {
            let throttle = bucket();
            throttle.settled(crate::throttle::Settled::Failure(&failure));
            let mut context = CallContext::default();
            context.attach_throttle(&throttle);
            context.claim_first();
            let follower = context.reporter().follow();
            if is_own {
                context.reporter().own_answer();
            }
            // A bad end before the commit is for the layer that read it.
            if ends_first && end == good {
                follower.finish(&end);
                context.settle_success(true);
            } else {
                context.settle_success(true);
                follower.finish(&end);
            }
            assert_eq!(throttle.milli_tokens(), Some(tokens), "own: {is_own}");
        }
    }
}

/// A layer answered the first attempt with a failure, and a server the second one; or the other way
/// round.
#[cfg(feature = "tokio")]
#[test]
fn a_server_accepts_only_what_it_answered_itself() {
    let failure = crate::Failure::new(crate::reason::UNKNOWN, crate::Stage::Response);
    for (own, accepted, tokens) in [
        ([true, false], Some(true), 9_100),
        ([false, true], None, 9_000),
    ] {
        let throttle = bucket();
        throttle.settled(crate::throttle::Settled::Failure(&failure));
        let mut context = CallContext::default();
        context.attach_throttle(&throttle);
        let handle = context.begin();
        context.claim_first();
        if own[0] {
            context.reporter().own_answer();
        }
        context.end_attempt();
        context.start_attempt(2, AttemptKind::Retry);
        if own[1] {
            context.reporter().own_answer();
        }
        context.settle_recovery(false);
        let found = handle.was_accepted(&Admission::off(), || panic!("no response is followed"));
        assert_eq!(found, accepted, "{own:?}");
        assert_eq!(throttle.milli_tokens(), Some(tokens), "{own:?}");
    }
}

#[test]
fn a_handle_above_a_copy_assumes_that_it_is_in_flight() {
    let mut context = CallContext::default();
    let above = context.begin();
    let copy = context.clone();
    let below = context.begin();
    for early in [true, false] {
        let mut context = if early { context.clone() } else { copy.clone() };
        drop(context.begin());
        context.claim_first();
        context.settle_success(false);
        assert!(!context.begin().in_flight(), "no copy of this one is out");
    }
    context.claim_first();
    context.settle_success(false);
    assert!(above.in_flight() && below.in_flight());
    assert!(!context.begin().in_flight(), "below the recovery layer");
    let mut next = CallContext::default();
    let handle = next.begin();
    next.claim_first();
    next.settle_success(false);
    assert!(!handle.in_flight());
}

#[cfg(feature = "http")]
#[test]
fn extensions_are_cloned_as_their_context_is() {
    let mut request = http::Request::new(());
    request.context_mut().set_data(7_u8);
    drop(request.context_mut().begin());
    let mut other = request.clone();
    request.context_mut().claim_first();
    // As a service below does that follows redirects.
    let mut redirected = http::Request::new(());
    *redirected.extensions_mut() = request.extensions().clone();
    redirected.context_mut().reporter().forbid();
    assert!(request.context().unwrap().report().forbidden);
    other.context_mut().claim_first();
    let other = other.context().unwrap();
    assert!(!other.report().forbidden && other.data::<u8>() == Some(&7));
}

#[test]
fn a_backend_that_an_attempt_names_often_displaces_no_other() {
    let mut context = CallContext::default();
    context.claim_first();
    let backend = |name: &str| Backend::new(name);
    context.reporter().backend(backend("first"));
    context.start_attempt(2, AttemptKind::Retry);
    for _ in 0..=crate::MOST_RECORDS {
        context.reporter().backend(backend("second"));
    }
    let tried = context.backends_tried();
    assert_eq!(tried, [backend("first"), backend("second")]);
}

/// A balancer may pick a backend for a hedge after the next one was sent.
#[cfg(feature = "tokio")]
#[test]
fn whether_a_hedge_may_lose_does_not_depend_on_later_ones() {
    let mut call = CallContext::default();
    call.claim_first();
    let mut hedges = [2, 3].map(|number| {
        let mut context = call.clone();
        context.start_attempt(number, AttemptKind::Hedge);
        context
    });
    hedges[0].allow_to_lose();
    assert_eq!([0, 1].map(|n| hedges[n].clone().may_lose()), [true, false]);
    let mut again = hedges[0].clone();
    again.start_attempt(4, AttemptKind::Hedge);
    assert!(!again.may_lose());
}
