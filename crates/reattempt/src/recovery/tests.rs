//! Panics of user code, at every point where a recovery layer runs some: the call ends once.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;
use tower::{Layer, Service, ServiceExt};

use super::*;
use crate::clock;
use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::hedge::HedgeDelay;
use crate::policy::strategy::{StrategyError, Surface};
use crate::policy::throttle::Settled;
use crate::policy::{EndedAttempt, HedgeView};
use crate::test_util::ms;
use crate::{
    AttemptRecord, Call, CallDeadline, Decision, HedgeLayer, HedgePolicy, OnDeadline, RetryInfo,
    RetryInfoHandle, RetryLayer, RetryStrategy, RetryThrottle, RetryView, RoutePolicy, Stage,
    StopReason,
};

thread_local! {
    /// How often user code returns before it panics. `None`: it does not.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    /// Where it panicked first.
    static AT: Cell<Option<&'static str>> = const { Cell::new(None) };
    static ALWAYS: Cell<bool> = const { Cell::new(false) };
}

/// User code that may panic, and from then on always if that is asked for.
fn runs(at: &'static str) {
    match LEFT.get() {
        Some(0) => {
            LEFT.set(Some(0).filter(|_| ALWAYS.get()));
            AT.set(AT.get().or(Some(at)));
            std::panic::resume_unwind(Box::new(at));
        }
        left => LEFT.set(left.map(|left| left - 1)),
    }
}

/// A drop, which panics only once: a second one would abort any program.
fn drops(at: &'static str) {
    if AT.get().is_none() && !std::thread::panicking() {
        runs(at);
    }
}

/// What a test of all panics varies.
#[derive(Clone, Copy, Debug)]
struct Case(u32);

impl Case {
    const ALL: u32 = 1 << 12;

    fn has(self, bit: u32) -> bool {
        self.0 & (1 << bit) != 0
    }
    fn hedges(self) -> bool {
        self.has(0)
    }
    fn defers(self) -> bool {
        self.has(1)
    }
    fn holds(self) -> bool {
        self.has(2)
    }
    fn waits(self) -> bool {
        self.has(3)
    }
    fn surfaces_new(self) -> bool {
        self.has(4)
    }
    /// The first attempt works. Where no failure is held there is none to surface.
    fn works_at_once(self) -> bool {
        self.has(4) && !self.has(2)
    }
    fn refuses_copies(self) -> bool {
        self.has(5)
    }
    fn is_pending(self) -> bool {
        self.has(6)
    }
    fn leaves_waiters(self) -> bool {
        self.has(7)
    }
    fn has_deadline(self) -> bool {
        self.has(8)
    }
    fn always_panics(self) -> bool {
        self.has(9)
    }
    /// The policy leaves the call to another layer, which does not exist.
    fn passes(self) -> bool {
        self.has(10)
    }
    /// The caller drops the call once it is pending.
    fn is_dropped(self) -> bool {
        self.has(11)
    }
}

impl RetryStrategy for Case {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        runs("decide");
        let delay = ms(3 * u64::from(self.waits() && view.retries % 2 == 1));
        if self.defers() {
            let sleep = Box::pin(tokio::time::sleep(ms(1)));
            return Decision::Defer(Box::pin(Deferred(delay, sleep)));
        }
        Decision::After(delay)
    }

    fn max_attempts(&self) -> Option<u32> {
        runs("max_attempts");
        Some(5)
    }

    fn holds(&self) -> bool {
        runs("holds");
        Self::holds(*self)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        runs("on_deadline");
        None
    }

    fn surface(&self, _: &Failure, _: &Failure) -> Surface {
        runs("surface");
        if self.surfaces_new() {
            Surface::New
        } else {
            Surface::Held
        }
    }
}

struct Deferred(Duration, Pin<Box<Sleep>>);

impl Future for Deferred {
    type Output = Result<Option<Duration>, StrategyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        runs("a deferred decision's poll");
        ready!(self.1.as_mut().poll(cx));
        Poll::Ready(Ok(Some(self.0)))
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        drops("a deferred decision's drop");
    }
}

/// An observer, a throttle, and a hedge delay that learns.
#[derive(Debug, Default)]
struct Seen {
    ends: Mutex<Vec<Option<StopReason>>>,
    spent: AtomicI32,
    /// The attempts of which the delay learned.
    fed: Mutex<Vec<u32>>,
}

impl Observer for Seen {
    fn attempt_sent(&self, _: &CallContext) {
        runs("attempt_sent");
    }

    fn attempt_settled(&self, _: &CallContext, _: &AttemptRecord) {
        runs("attempt_settled");
    }

    fn sees_end(&self, _: StopReason) -> bool {
        runs("sees_end");
        true
    }

    fn hedge_refused(&self, _: &CallContext, _: StopReason) {
        runs("hedge_refused");
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        self.ends.lock().unwrap().push(info.stopped());
        runs("call_ended");
    }
}

impl HedgeDelay for Seen {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        runs("delay");
        Some(ms(2))
    }

    fn learns(&self) -> bool {
        true
    }

    fn ended(&self, attempt: &EndedAttempt) {
        self.fed.lock().unwrap().push(attempt.number());
        runs("ended");
    }
}

impl RetryThrottle for Seen {
    fn settled(&self, _: Settled<'_>) {
        runs("settled");
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        runs("allows");
        true
    }

    fn spend(&self, _: Option<&Failure>) -> bool {
        runs("spend");
        self.spent.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn refund(&self, _: Option<&Failure>) {
        self.spent.fetch_sub(1, Ordering::Relaxed);
        runs("refund");
    }
}

/// An outcome.
struct Out;

impl Drop for Out {
    fn drop(&mut self) {
        drops("an outcome's drop");
    }
}

struct Attempt {
    sleep: Option<Pin<Box<Sleep>>>,
    works: bool,
}

impl Future for Attempt {
    type Output = Result<Out, Out>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        runs("an attempt's poll");
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(cx));
        }
        Poll::Ready(if self.works { Ok(Out) } else { Err(Out) })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        drops("an attempt's drop");
    }
}

struct Server {
    case: Case,
    calls: Arc<AtomicU32>,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        // As for the first call.
        if self.calls.load(Ordering::Relaxed) > 1 {
            runs("a service's clone");
        }
        Self {
            case: self.case,
            calls: Arc::clone(&self.calls),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drops("a service's drop");
    }
}

impl Service<Request> for Server {
    type Response = Out;
    type Error = Out;
    type Future = Attempt;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Out>> {
        runs("poll_ready");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Attempt {
        let earlier = self.calls.load(Ordering::Relaxed);
        // Before the first call has returned there is no future that could end it.
        if earlier > 0 {
            runs("call");
        }
        if self.case.leaves_waiters() {
            let kept = Arc::clone(&self.calls);
            let waits = async move {
                let _kept = kept;
                runs("a waiter");
                tokio::time::sleep(ms(2)).await;
                true
            };
            let reporter = request.context_mut().reporter();
            reporter.config_coming(Box::pin(waits));
        }
        drop(request);
        self.calls.store(earlier + 1, Ordering::Relaxed);
        let sleep = ms(1 + 3 * u64::from(earlier % 2));
        let sleep = self.case.is_pending().then(|| tokio::time::sleep(sleep));
        Attempt {
            sleep: sleep.map(Box::pin),
            works: earlier == 4 || self.case.works_at_once(),
        }
    }
}

struct Request {
    call: Call<()>,
    case: Case,
    _kept: Arc<AtomicU32>,
}

impl Drop for Request {
    fn drop(&mut self) {
        drops("a request's drop");
    }
}

impl HasCallContext for Request {
    fn context(&self) -> Option<&CallContext> {
        self.call.context()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.call.context_mut()
    }

    fn subject(&self) -> crate::CallSubject {
        runs("subject");
        crate::CallSubject::default()
    }
}

impl Replay for Request {
    fn can_replay(&self, _: &NextAttempt<'_>) -> bool {
        runs("can_replay");
        true
    }

    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self> {
        runs("replay");
        let refused = self.case.refuses_copies() && next.number > 3;
        (!refused).then(|| Self {
            call: self.call.clone(),
            case: self.case,
            _kept: Arc::clone(&self._kept),
        })
    }

    fn release(&mut self) {
        runs("release");
    }

    fn attempt_over(&self, _: u32) {
        runs("attempt_over");
    }
}

fn classify(outcome: Result<&Out, &Out>, _: &CallContext) -> Verdict {
    runs("classify");
    match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response)),
    }
}

type Sent = Pin<Box<dyn Future<Output = Result<Out, Out>>>>;

/// A call through one of the layers.
fn send(case: Case, seen: &Arc<Seen>, calls: &Arc<AtomicU32>) -> (Sent, RetryInfoHandle) {
    let mut request = Request {
        call: Call::new(()),
        case,
        _kept: Arc::clone(calls),
    };
    let context = request.context_mut();
    context.set_throttle(seen.clone());
    if case.has_deadline() {
        context.attach_deadline(CallDeadline::attached(clock::now() + ms(6)));
    }
    let hedges = HedgePolicy::with_delay(5, seen.clone()).hedge_non_idempotent();
    if case.passes() {
        let policy = RoutePolicy::new("passes");
        context.set_policy(Arc::new(if case.hedges() {
            policy.no_recovery()
        } else {
            policy.hedge(hedges.clone())
        }));
    }
    let watch = RetryInfo::track(&mut request);
    let server = Server {
        case,
        calls: Arc::clone(calls),
    };
    let classifier = crate::classify_fn(classify);
    let call: Sent = if case.hedges() {
        let layer = HedgeLayer::new(classifier, hedges).observer(seen.clone());
        Box::pin(layer.layer(server).oneshot(request))
    } else {
        let layer = RetryLayer::new(classifier, case).observer(seen.clone());
        Box::pin(layer.layer(server).oneshot(request))
    };
    (call, watch)
}

/// Polls a call to its end, and drops it while a panic of its user code unwinds. `Err` if it
/// panicked.
async fn drive(case: Case, call: Sent) -> Result<Option<Result<Out, Out>>, ()> {
    let mut call = Some(call);
    poll_fn(|cx| {
        let mut polled = Poll::Pending;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut owned = call.take().expect("it is pending");
            polled = owned.as_mut().poll(cx);
            // Otherwise it is dropped here.
            if polled.is_pending() && !case.is_dropped() {
                call = Some(owned);
            }
        }));
        match (panicked, std::mem::replace(&mut polled, Poll::Pending)) {
            (Err(_), _) => Poll::Ready(Err(())),
            (Ok(()), Poll::Ready(outcome)) => Poll::Ready(Ok(Some(outcome))),
            (Ok(()), Poll::Pending) if call.is_some() => Poll::Pending,
            (Ok(()), Poll::Pending) => Poll::Ready(Ok(None)),
        }
    })
    .await
}

/// Sends a call whose user code panics after it has returned this often. Where that was, or `None`
/// if the call ended before.
async fn panics(case: Case, after: u32) -> Option<&'static str> {
    let (seen, calls) = (Arc::new(Seen::default()), Arc::new(AtomicU32::new(0)));
    let (call, watch) = send(case, &seen, &calls);
    AT.set(None);
    ALWAYS.set(case.always_panics());
    LEFT.set(Some(after));
    let outcome = drive(case, call).await;
    // The test's own drop of the outcome is none of the layer's.
    let at = AT.get();
    LEFT.set(None);
    let panicked = outcome.is_err();
    drop(outcome);
    let at = at?;
    assert!(panicked, "a panic is lost: {case:?} at {at}, {after}");
    let (ends, sent) = (seen.ends.lock().unwrap(), calls.load(Ordering::Relaxed));
    let info = watch.info();
    let what = format!("{case:?} at {at}, {after}: {ends:?} {info:?}");
    if sent == 0 {
        return Some(at);
    }
    assert!(info.stopped().is_some(), "no end: {what}");
    let succeeded = matches!(info.stopped(), Some(StopReason::Success));
    match &**ends {
        [end] => assert_eq!(*end, info.stopped(), "{what}"),
        // It panicked at the attempt that succeeded, or had no wish for the end.
        [] => assert!(
            succeeded || at == "sees_end" || case.always_panics(),
            "{what}"
        ),
        _ => panic!("two ends: {what}"),
    }
    // An attempt whose settling panicked may have no record, and a loser at which it did. A first
    // success has none.
    let settled = ["call", "attempt_settled", "classify", "an attempt's poll"].contains(&at);
    let lost = u32::from(!settled) + u32::from(case.hedges() || case.works_at_once());
    let records = info.records().len() as u32;
    assert!(
        case.always_panics() || info.attempts() <= records + lost,
        "{what}"
    );
    let cancelled = |record: &AttemptRecord| record.stopped == Some(StopReason::Cancelled);
    assert!(!succeeded || !info.records().any(cancelled), "{what}");
    let twice = "an attempt has two records";
    assert!(records <= info.attempts(), "{twice}: {what}");
    let paid = seen.spent.load(Ordering::Relaxed);
    // The server may have got what panicked while it was sent. A hedge is paid for before an
    // observer sees it.
    let uncounted =
        ["call", "a request's drop"].contains(&at) || case.hedges() && at == "attempt_sent";
    let most = sent.cast_signed() - 1 + i32::from(uncounted);
    assert!(case.always_panics() || paid <= most, "{paid} paid: {what}");
    let mut fed = seen.fed.lock().unwrap().clone();
    fed.sort_unstable();
    assert!(fed.is_sorted_by(|a, b| a < b), "fed twice: {fed:?} {what}");
    assert_eq!(Arc::strong_count(&calls), 1, "something is kept: {what}");
    Some(at)
}

/// A log that is on: it asks what a call is about.
struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "reattempt::call"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_any_user_code_ends_the_call_once() {
    // Prevents tracing from caching the "no subscriber" interest of another thread.
    drop(crate::test_util::listen());
    let _log = tracing::subscriber::set_default(Log);
    let mut places = BTreeSet::new();
    for case in (0..Case::ALL).map(Case) {
        for after in 0.. {
            let Some(at) = panics(case, after).await else {
                break;
            };
            places.insert(at);
        }
    }
    assert_eq!(places.len(), 33, "{places:?}");
}
