use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::states::{STATES, fresh, give_back};
use super::*;
use crate::attempt::StopReason;
use crate::call::state::CallState;
use crate::failure::reason::KV_LOCKED;
use crate::policy::throttle::Settled;
use crate::{
    AttemptKind, AttemptOutcome, AttemptRecord, AttemptReport, Backend, CallContext, CallSubject,
    ConfigWaiter, Failure, RetryInfo, RetryThrottle, ServerPushback, Stage, TokenBucket,
};

/// The number of states that this thread keeps: its own calls' and some that others left.
fn kept() -> usize {
    STATES.with(|kept| {
        let next = kept.next.take();
        let count = kept.others.borrow().len() + usize::from(next.is_some());
        kept.next.set(next);
        count
    })
}

fn is_kept(state: *const CallState) -> bool {
    STATES.with(|kept| {
        let next = kept.next.take();
        let is_next = next.as_ref().is_some_and(|next| Arc::as_ptr(next) == state);
        kept.next.set(next);
        let others = kept.others.borrow();
        is_next || others.iter().any(|other| Arc::as_ptr(other) == state)
    })
}

fn state_of(context: &CallContext) -> *const CallState {
    std::ptr::from_ref(context.shared().expect("has begun"))
}

#[test]
fn the_threads_next_call_reuses_the_state_without_its_data() {
    let mut first = CallContext::default();
    drop(first.begin());
    first.reporter().pushback(ServerPushback::Stop);
    first.claim_first();
    first.reporter().forbid();
    first.settle_success(true);
    first.begin().stop(StopReason::Fatal);
    let (state, late) = (state_of(&first), first.reporter());
    drop(first);
    assert!(!is_kept(state), "a late reporter may still write to it");
    drop(late);
    assert!(is_kept(state));

    let mut second = CallContext::default();
    let handle = second.begin();
    assert!(!is_kept(state));
    assert!(std::ptr::eq(state_of(&second), state));
    assert_eq!(second.info(), RetryInfo::default());
    assert_eq!(second.report(), AttemptReport::default());
    assert!(!handle.is_claimed() && second.backends_tried().is_empty());
    second.claim_first();
    assert_eq!(second.report(), AttemptReport::default());
    assert!(handle.in_flight());
}

#[test]
fn a_state_that_is_still_referenced_is_not_reused() {
    let mut request = crate::Call::new(());
    let handle = RetryInfo::track(&mut request);
    let mut context = request.into_parts().1;
    context.start_attempt(1, AttemptKind::Initial);
    let (state, late) = (state_of(&context), context.reporter());
    drop(context);
    let mut next = CallContext::default();
    next.start_attempt(1, AttemptKind::Initial);
    assert!(!std::ptr::eq(state_of(&next), state));
    late.forbid();
    assert!(!next.report().forbidden);
    assert_eq!(handle.info().attempts(), 1);
}

#[test]
fn a_state_with_user_data_is_not_kept() {
    let mut context = CallContext::default();
    context.set_data(1_u8);
    drop(context.begin());
    let state = state_of(&context);
    drop(context);
    assert!(!is_kept(state));
}

/// A call that failed this often, with a waiter that was left and a backend for each attempt.
fn failed(attempts: u32, waiter: ConfigWaiter) -> *const CallState {
    let mut context = CallContext::default();
    context.claim_first();
    context.reporter().config_coming(waiter);
    for attempt in 1..=attempts {
        context.start_attempt(attempt, AttemptKind::Retry);
        context.reporter().backend(Backend::new("a"));
        let state = context.shared().unwrap();
        let mut record = AttemptRecord::new(attempt, AttemptKind::Retry, AttemptOutcome::Retry);
        record.failure = Some(Failure::new(KV_LOCKED, Stage::Response));
        record.paid = true;
        state.record(&record);
        state.refused(StopReason::Throttled);
        state.describe(CallSubject::default);
    }
    assert_eq!(context.backends_tried().len(), 1);
    context.shared().unwrap().stop(StopReason::Attempts);
    state_of(&context)
}

#[test]
fn a_failed_calls_state_is_kept_without_its_log() {
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let waiter = Box::pin(async move {
        drop(held);
        true
    });
    let state = failed(2, waiter);
    assert!(is_kept(state));
    assert_eq!(Arc::strong_count(&dropped), 1);
    let mut next = CallContext::default();
    let handle = next.begin();
    assert!(std::ptr::eq(state_of(&next), state));
    next.claim_first();
    assert_eq!((next.info().stopped(), next.info().attempts()), (None, 1));
    assert!(!handle.is_copied() && !next.shared().unwrap().is_logged());
    // Once this call logs something, nothing of the other one is there.
    next.shared().unwrap().refused(StopReason::Deadline);
    let info = next.info();
    assert!(info.records().len() == 0 && info.reasons().next().is_none());
    assert!(info.refusals().eq([StopReason::Deadline]));
    assert!(next.backends_tried().is_empty() && next.call_id().is_none());
    assert_eq!(next.shared().unwrap().last_paid(), None);
    assert!(next.take_config_waiter().is_none() && next.subject().is_none());
}

#[test]
fn failing_calls_allocate_their_log_once() {
    let waiter = || -> ConfigWaiter { Box::pin(std::future::ready(true)) };
    let log_of = |attempts| {
        failed(attempts, waiter());
        let state = fresh();
        let log = state.log_address();
        give_back(state);
        log
    };
    let few = log_of(2);
    assert!(few.is_some());
    assert_eq!(log_of(4), few, "the same memory");
    assert_eq!(log_of(5), None, "a long log is freed");
}

#[cfg(feature = "tokio")]
#[test]
fn a_long_list_of_awaited_ends_is_freed() {
    use crate::call::AtEnd;
    let log_of = |number| {
        let mut context = CallContext::default();
        context.claim_first();
        for _ in 0..number {
            context.at_end(AtEnd::Admission(
                Arc::default(),
                context.criticality(),
                std::time::Duration::ZERO,
            ));
        }
        drop(context);
        let state = fresh();
        let log = state.log_address();
        give_back(state);
        log
    };
    assert!(log_of(4).is_some());
    assert_eq!(log_of(5), None);
}

#[test]
fn options_attached_below_a_handle_are_kept_for_the_next_call() {
    let bucket = TokenBucket::new(10, 100).expect("numbers that A6 allows");
    let throttle: Arc<dyn RetryThrottle> = Arc::new(bucket);
    let states = [0, 1, 2].map(|_| {
        let mut context = CallContext::default();
        let handle = context.begin();
        context.attach_throttle(&throttle);
        context.claim_first();
        drop(handle);
        state_of(&context)
    });
    assert_eq!(
        states[1], states[2],
        "nothing is allocated from the second on"
    );
}

#[test]
fn a_thread_keeps_a_bounded_number() {
    let calls: Vec<_> = (0..2 * MOST_KEPT)
        .map(|_| {
            let mut context = CallContext::default();
            context.begin();
            context
        })
        .collect();
    drop(calls);
    assert!((BATCH..=MOST_KEPT).contains(&kept()));
}

/// A user's throttle whose drop makes a call, and panics if it is to.
#[derive(Debug)]
struct Dropped {
    panics: bool,
    count: Arc<AtomicUsize>,
}

impl RetryThrottle for Dropped {
    fn settled(&self, _: Settled<'_>) {}

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut context = CallContext::default();
        drop(context.begin());
        context.claim_first();
        drop(context);
        assert!(!self.panics, "a user's panic");
    }
}

/// A call with a throttle of its own; below a handle if it is to be.
fn call_with(throttle: Dropped, below_a_handle: bool) -> CallContext {
    let mut context = CallContext::default();
    let handle = below_a_handle.then(|| context.begin());
    let throttle: Arc<dyn RetryThrottle> = Arc::new(throttle);
    context.attach_throttle(&throttle);
    context.claim_first();
    drop(handle);
    context
}

#[test]
fn a_users_drop_may_make_calls() {
    let count = Arc::new(AtomicUsize::new(0));
    let throttle = |panics| Dropped {
        panics,
        count: Arc::clone(&count),
    };
    for below in [true, false] {
        count.store(0, Ordering::Relaxed);
        let thread = std::thread::scope(|scope| {
            let calls = || {
                let many: Vec<_> = (0..2 * MOST_KEPT)
                    .map(|_| call_with(throttle(false), below))
                    .collect();
                drop(many);
                assert!(kept() <= MOST_KEPT);
                for _ in 0..MOST_KEPT {
                    drop(call_with(throttle(false), below));
                }
            };
            scope.spawn(calls).join()
        });
        thread.expect("no panic");
        let dropped = count.load(Ordering::Relaxed);
        assert_eq!(dropped, 3 * MOST_KEPT, "a thread that ends keeps none");
    }
}

#[test]
fn a_panic_in_a_users_drop_leaves_the_pool_whole() {
    let count = Arc::new(AtomicUsize::new(0));
    let throttle = |panics| Dropped {
        panics,
        count: Arc::clone(&count),
    };
    drop(call_with(throttle(true), false));
    let next = std::panic::catch_unwind(|| {
        // The throttle of the call before is dropped here.
        drop(call_with(throttle(false), false));
    });
    assert!(next.is_err() && count.load(Ordering::Relaxed) == 1);
    let mut context = call_with(throttle(false), true);
    assert!(context.throttle().is_some() && context.policy().is_none());
    context.start_attempt(2, AttemptKind::Retry);
    assert_eq!(context.info().attempts(), 2);
    drop(context);
    assert!(kept() <= MOST_KEPT);
}

#[test]
fn a_state_may_end_on_another_thread() {
    let mut context = CallContext::default();
    let handle = context.begin();
    context.claim_first();
    let late = context.reporter();
    let address = state_of(&context).addr();
    drop((context, handle));
    let thread = std::thread::spawn(move || {
        late.forbid();
        late.stage(crate::Stage::Dispatch);
        drop(late);
        let state = STATES.with(|kept| kept.next.take()).expect("the call's");
        assert_eq!(Arc::as_ptr(&state).addr(), address);
        give_back(state);
        let mut next = CallContext::default();
        let handle = next.begin();
        next.claim_first();
        assert_eq!(next.report(), AttemptReport::default());
        assert!(handle.in_flight());
    });
    thread.join().expect("no panic");
}

/// What its users still have of a value is counted.
type Counted = (u32, Option<Arc<()>>);

#[test]
fn what_is_too_much_for_one_thread_is_used_by_another() {
    static SHARED: SharedPool<Counted> = SharedPool::new(|value| value.1 = None);
    let user = Arc::new(());
    let ended = Pool::new(|| &SHARED);
    let most = MOST_KEPT as u32;
    (0..=most).for_each(|number| ended.put((number, Some(Arc::clone(&user)))));
    assert_eq!(
        Arc::strong_count(&user),
        1 + BATCH + 1,
        "the oldest were left"
    );
    let begun = Pool::new(|| &SHARED);
    let taken: Vec<_> = std::iter::from_fn(|| begun.take()).collect();
    let numbers: Vec<_> = taken.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..BATCH as u32).rev().collect::<Vec<_>>());
    assert!(taken.iter().all(|(_, of_user)| of_user.is_none()));
    assert_eq!(ended.take().map(|(number, _)| number), Some(most));
}

#[test]
fn threads_leave_a_bounded_number_to_others() {
    static SHARED: SharedPool<Counted> = SharedPool::new(|_| ());
    let user = Arc::new(());
    let ended = Pool::new(|| &SHARED);
    for number in 0..2 * (MOST_SHARED + MOST_KEPT) as u32 {
        ended.put((number, Some(Arc::clone(&user))));
    }
    let kept = Arc::strong_count(&user) - 1;
    assert!(
        (MOST_SHARED..=MOST_SHARED + MOST_KEPT).contains(&kept),
        "{kept}"
    );
}

#[test]
fn no_thread_waits_for_another() {
    static SHARED: SharedPool<Counted> = SharedPool::new(|_| ());
    let busy = SHARED.kept.lock().unwrap();
    let own = Pool::new(|| &SHARED);
    assert!(own.take().is_none());
    (0..=MOST_KEPT as u32).for_each(|number| own.put((number, None)));
    drop(busy);
    assert!(SHARED.kept.lock().unwrap().is_empty(), "they were dropped");
}

#[test]
fn a_panic_while_values_are_prepared_loses_only_these() {
    static SHARED: SharedPool<Counted> = SharedPool::new(|value| assert_ne!(value.0, 3));
    let user = Arc::new(());
    let own = Pool::new(|| &SHARED);
    let put = |number| own.put((number, Some(Arc::clone(&user))));
    (0..MOST_KEPT as u32).for_each(put);
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| put(64)));
    assert!(left.is_err());
    assert_eq!(Arc::strong_count(&user) - 1, MOST_KEPT + 1 - BATCH);
    assert_eq!(own.take().map(|(number, _)| number), Some(64));
}
