//! What is cloned, and when; requests that cannot be cloned.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Weak};

use crate::{CallDeadline, Failure, NextAttempt, OnDeadline, Stage};
use crate::{Replay, RetryThrottle, TokenBucket};

use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_cloned_when_no_further_attempt_is_possible() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let once = MaxAttempts::new(1, Backoff::constant(ms(10)));
    let (call_result, info) = send(&RetryLayer::new(NeverForces, once), &probe).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(probe.log().request_clones(), 0);
    assert_eq!(probe.log().service_clones(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_moves_the_template() {
    let probe = probe((1..=3).map(|n| attempt(n).fails(TMPFAIL)));
    let _ = send(&RetryLayer::new(NeverForces, three()), &probe).await;
    assert_eq!(probe.log().request_clones(), 2);
    assert_eq!(probe.log().service_clones(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_classifier_that_may_force_keeps_the_template_to_the_end() {
    let probe = probe((1..=3).map(|n| attempt(n).fails(TMPFAIL)));
    let _ = send(&retry(three()), &probe).await;
    assert_eq!(probe.log().request_clones(), 3);
}

/// A plain request that counts its clones.
#[derive(Debug)]
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

/// Every attempt fails and may be retried, within the strategy's limit.
#[derive(Clone, Copy)]
struct Fails;

impl Classify<(), ()> for Fails {
    fn classify(&self, _: Result<&(), &()>, _: &CallContext) -> Verdict {
        Verdict::Retry(Failure::new(TMPFAIL, Stage::Response))
    }

    fn may_force(&self) -> bool {
        false
    }
}

/// How often the request of a failing call without options was cloned. `later` runs once the layer
/// was built.
async fn clones(strategy: impl crate::RetryStrategy + 'static, later: impl FnOnce()) -> u32 {
    let fails = tower::service_fn(|_| std::future::ready(Err(())));
    let service = RetryLayer::new(Fails, strategy).layer(fails);
    later();
    let clones = Arc::default();
    let request = Call::new(Counted(Arc::clone(&clones)));
    assert_eq!(service.oneshot(request).await, Err(()));
    clones.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_options_is_cloned_for_each_retry_only() {
    assert_eq!(clones(crate::strategy::NeverRetry, || {}).await, 0);
    assert_eq!(clones(three(), || {}).await, 2);
}

/// A strategy whose limit changes.
#[derive(Debug)]
struct Adjustable(Arc<AtomicU32>);

impl crate::RetryStrategy for Adjustable {
    fn decide(&self, _: &crate::RetryView<'_>) -> crate::Decision {
        crate::Decision::After(ms(10))
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_rises_or_falls_later_counts() {
    for (from, to, copied) in [(1, 3, 2), (3, 1, 1)] {
        let limit = Arc::new(AtomicU32::new(from));
        let set = Arc::clone(&limit);
        let later = move || set.store(to, Ordering::Relaxed);
        assert_eq!(clones(Adjustable(limit), later).await, copied);
    }
}

/// A request that controls whether it can be sent again.
#[derive(Debug)]
struct Stubborn {
    call: Call<Payload>,
    /// How often it says that it can be.
    can: Arc<AtomicU32>,
    copies: Arc<AtomicU32>,
    most: u32,
    cut_off: bool,
}

impl HasCallContext for Stubborn {
    fn context(&self) -> Option<&CallContext> {
        self.call.context()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.call.context_mut()
    }
}

impl Replay for Stubborn {
    fn was_cut_off(&self, _: u32) -> bool {
        self.cut_off
    }

    fn can_replay(&self, _: &NextAttempt<'_>) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        self.can.fetch_update(order, order, one_less).is_ok()
    }

    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        let made = self.copies.fetch_add(1, Ordering::Relaxed);
        (made < self.most).then(|| Self {
            call: self.call.clone(),
            can: Arc::clone(&self.can),
            copies: Arc::clone(&self.copies),
            most: self.most,
            cut_off: self.cut_off,
        })
    }
}

async fn send_stubborn(probe: &Probe, can: u32, most: u32) -> (CallResult, RetryInfo) {
    send_stubborn_through(&retry(three()), probe, can, most).await
}

async fn send_stubborn_through<C>(
    layer: &RetryLayer<C>,
    probe: &Probe,
    can: u32,
    most: u32,
) -> (CallResult, RetryInfo)
where
    C: Classify<Answer, Fault> + Clone,
{
    let mut call = probe.request();
    let watch = RetryInfo::track(&mut call);
    let copies = Arc::default();
    let request = Stubborn {
        call,
        can: Arc::new(can.into()),
        copies,
        most,
        cut_off: false,
    };
    let outcome = layer.layer(probe.inner()).oneshot(request).await;
    (call_result(&outcome), watch.info())
}

/// R21, R51: an attempt that its own request cut off says nothing about the server.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_is_not_counted() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let mut request = Stubborn {
        call: probe.request(),
        can: Arc::default(),
        copies: Arc::default(),
        most: 9,
        cut_off: true,
    };
    request.context_mut().set_throttle(bucket.clone());
    let watch = RetryInfo::track(&mut request);
    let outcome = retry(three()).layer(probe.inner()).oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    assert_eq!(bucket.milli_tokens(), Some(10_000));
    assert_eq!(watch.info().stopped(), Some(StopReason::NotReplayable));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_resent_gets_its_own_failure() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let (call_result, info) = send_stubborn(&probe, 0, 9).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
    assert_eq!(probe.log().now(), 0, "no delay before it");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_copied_at_all_is_sent_once() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let (call_result, info) = send_stubborn(&probe, 9, 0).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
    assert_eq!(probe.log().service_clones(), 0);
}

/// The last attempt moves the request, whose body may have outgrown its buffer in the delay.
#[tokio::test(start_paused = true)]
async fn a_request_that_refuses_to_be_moved_returns_the_kept_failure() {
    let probe = probe((1..=2).map(|n| attempt(n).fails(TMPFAIL)));
    let layer = RetryLayer::new(NeverForces, three());
    let (call_result, info) = send_stubborn_through(&layer, &probe, 2, 9).await;
    assert_eq!(call_result, CallResult::Error(2));
    assert_eq!(info.attempts(), 2);
    let last = info.records().last().cloned().unwrap();
    assert_eq!(last.stopped, Some(StopReason::NotReplayable));
}

/// M24
#[tokio::test(start_paused = true)]
async fn a_copy_refused_at_send_time_returns_the_kept_failure() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let (call_result, info) = send_stubborn(&probe, 9, 1).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(probe.log().now(), 10, "refused at send time");
    let last = info.records().last().cloned().unwrap();
    assert_eq!(last.stopped, Some(StopReason::NotReplayable));
}

#[tokio::test(start_paused = true)]
async fn with_no_kept_failure_a_refused_copy_sends_the_original() {
    let failing = attempt(1).fails(TMPFAIL).as_answer();
    let probe = probe([failing, attempt(2).fails(TMPFAIL)]);
    let (call_result, info) = send_stubborn(&probe, 9, 1).await;
    assert_eq!(call_result, CallResult::Error(2));
    assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
}

/// The transport reads on while the server's early answer is judged.
#[tokio::test(start_paused = true)]
async fn a_body_that_outgrows_its_buffer_keeps_the_answer() {
    let probe = probe([attempt(1).fails(TMPFAIL).as_answer()]);
    let (call_result, info) = send_stubborn(&probe, 1, 9).await;
    assert_eq!(call_result, CallResult::Answer(1));
    let last = info.records().last().cloned().unwrap();
    assert_eq!(last.stopped, Some(StopReason::NotReplayable));
    assert_eq!(probe.log().now(), 0, "no delay before it");
}

/// Nothing of it is sent again.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_deadline_keeps_no_request() {
    let sent = Arc::new(());
    let mut request = Call::new(Arc::clone(&sent));
    let at = crate::clock::now() + ms(5);
    let deadline = CallDeadline::enforced(at);
    request.context_mut().attach_deadline(deadline);
    let fails = tower::service_fn(|_| std::future::ready(Err(())));
    let layer = RetryLayer::new(Fails, three().on_deadline(OnDeadline::Cap));
    let mut call = pin!(layer.layer(fails).oneshot(request));
    assert!(poll_once(call.as_mut()).is_pending());
    assert_eq!(Arc::strong_count(&sent), 1);
}

/// It may hold a connection. Until then a deadline that no layer enforces may return it.
#[tokio::test(start_paused = true)]
async fn a_kept_answer_is_dropped_before_the_next_attempt() {
    let answers = Mutex::new(Vec::<Weak<()>>::new());
    let service = tower::service_fn(|_| {
        let mut answers = answers.lock().unwrap();
        assert!(answers.iter().all(|answer| answer.upgrade().is_none()));
        let answer = Arc::new(());
        answers.push(Arc::downgrade(&answer));
        std::future::ready(Ok::<_, ()>(answer))
    });
    let fails = crate::classify_fn(|_: Result<&Arc<()>, &()>, _: &CallContext| {
        Verdict::Retry(Failure::new(TMPFAIL, Stage::Response))
    });
    let mut request = Call::new(());
    let far = crate::clock::now() + ms(1000);
    let deadline = CallDeadline::attached(far);
    request.context_mut().attach_deadline(deadline);
    let last = RetryLayer::new(fails, three())
        .layer(service)
        .oneshot(request);
    assert!(last.await.is_ok());
    assert_eq!(answers.lock().unwrap().len(), 3);
}
