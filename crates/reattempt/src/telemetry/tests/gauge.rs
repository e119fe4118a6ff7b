//! The gauge of the emptiest throttle, beside calls of other throttles and after a panic.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::policy::throttle::Settled;
use crate::{CallContext, Observer, RetryThrottle, StopReason};

#[tokio::test(start_paused = true)]
async fn the_gauge_follows_a_throttle_that_recovers_after_other_calls() {
    for (most, ratio, after_failure, other) in [(1, 1000, 0, false), (10, 100, 4000, true)] {
        let (kept, metrics) = metrics();
        let bucket = || Arc::new(TokenBucket::new(most, ratio).unwrap());
        let (one, another) = (bucket(), bucket());
        call_under(&metrics, Some(&one), false).await;
        assert_eq!(level(&kept), after_failure);
        for _ in 0..150 {
            call_under(&metrics, other.then_some(&another), true).await;
        }
        for _ in 0..1000 {
            call_under(&metrics, Some(&one), true).await;
        }
        assert_eq!(level(&kept), u64::from(most) * 500);
    }
}

/// Of a host that was taken out of service while it failed.
#[tokio::test(start_paused = true)]
async fn a_throttle_without_a_failure_is_forgotten_after_a_while() {
    let (kept, metrics) = metrics();
    let bucket = |most| Arc::new(TokenBucket::new(most, 1000).unwrap());
    let (retired, used) = (bucket(4), bucket(10));
    for _ in 0..2 {
        call_under(&metrics, Some(&retired), false).await;
    }
    for minute in 1..12 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        call_under(&metrics, Some(&used), false).await;
        call_under(&metrics, Some(&used), true).await;
        let expected = if minute < 10 { 0 } else { 5000 };
        assert_eq!(level(&kept), expected, "{minute}");
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    call_under(&metrics, None, true).await;
    assert_eq!(level(&kept), 5000, "none is left: the highest so far");
    call_under(&metrics, Some(&retired), false).await;
    call_under(&metrics, None, true).await;
    assert_eq!(level(&kept), 0, "it is back");
}

/// The only failure may be the end of a stream.
#[tokio::test(start_paused = true)]
async fn a_response_that_fails_late_sets_the_gauge() {
    let (kept, metrics) = metrics();
    let bucket = Arc::new(TokenBucket::new(6, 1000).unwrap());
    for expected in [2000, 1000] {
        let (_call, broken) = committed(&metrics, &bucket).await;
        broken.finish(&Verdict::Retry(BROKEN));
        assert_eq!(level(&kept), expected);
    }
}

/// An exporter with an idle timeout drops a gauge that is not set for a while.
#[tokio::test(start_paused = true)]
async fn a_level_that_stays_as_it_was_is_set_again() {
    let (kept, metrics) = metrics();
    let bucket = Arc::new(TokenBucket::new(4, 1).unwrap());
    let forgotten = || {
        let rows = kept.0.lock().unwrap();
        rows[&format!("{} ", THROTTLE.name)].store(77_000, Ordering::Relaxed);
    };
    for works in [false, false, false, true] {
        forgotten();
        call_under(&metrics, Some(&bucket), works).await;
        assert!(level(&kept) <= 1000);
    }
    for _ in 0..200 {
        call_under(&metrics, None, true).await;
    }
    forgotten();
    for _ in 0..=64 {
        call_under(&metrics, None, true).await;
    }
    assert_eq!(level(&kept), 0, "also at rest");
}

#[derive(Clone, Debug, Default)]
struct PanicsOnce {
    kept: Kept,
    panicked: Arc<AtomicBool>,
}

impl Gauge for PanicsOnce {
    fn set(&self, value: f64) {
        assert!(self.panicked.swap(true, Ordering::Relaxed), "a bug");
        let mut rows = self.kept.0.lock().unwrap();
        let row = rows.entry("level".into()).or_default();
        row.store((value * 1000.0) as u64, Ordering::Relaxed);
    }
}

impl Meter for PanicsOnce {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        self.kept.counter(instrument, labels)
    }

    fn gauge(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(self.clone())
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        self.kept.histogram(instrument, labels)
    }
}

#[tokio::test(start_paused = true)]
async fn one_panic_does_not_switch_the_gauge_off() {
    let meter = PanicsOnce::default();
    let metrics = Metrics::new(meter.clone());
    let bucket = Arc::new(TokenBucket::new(10, 1000).unwrap());
    let of_task = (metrics.clone(), Arc::clone(&bucket));
    let call = tokio::spawn(async move { call_under(&of_task.0, Some(&of_task.1), false).await });
    assert!(call.await.is_err(), "it panicked once");
    call_under(&metrics, Some(&bucket), false).await;
    assert!(meter.kept.sum("level") > 0);
}

/// A hedge budget may refuse for hours while no attempt fails.
#[tokio::test(start_paused = true)]
async fn a_throttle_that_refuses_hedges_is_not_forgotten() {
    let (kept, metrics) = metrics();
    let bucket = Arc::new(TokenBucket::new(4, 1).unwrap());
    for _ in 0..2 {
        call_under(&metrics, Some(&bucket), false).await;
    }
    let mut refused = CallContext::default();
    refused.set_throttle(bucket);
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        metrics.hedge_refused(&refused, StopReason::Throttled);
        call_under(&metrics, None, true).await;
        assert_eq!(level(&kept), 0);
    }
}

/// A throttle without a level. While it is asked, another one counts a failure, once: as a call on
/// another thread may.
#[derive(Debug)]
struct Interrupted {
    metrics: Metrics,
    by: Mutex<Option<Arc<TokenBucket>>>,
}

impl RetryThrottle for Interrupted {
    fn settled(&self, _: Settled<'_>) {}

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }

    fn milli_headroom(&self) -> Option<u64> {
        let by = self.by.lock().unwrap().take();
        if let Some(by) = by {
            by.settled(Settled::Failure(&BROKEN));
            let mut refused = CallContext::default();
            refused.set_throttle(by);
            self.metrics.hedge_refused(&refused, StopReason::Throttled);
        }
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_first_used_while_none_counts_is_watched() {
    let (kept, metrics) = metrics();
    let full = Arc::new(TokenBucket::new(10, 1000).unwrap());
    call_under(&metrics, Some(&full), false).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let drained = Arc::new(TokenBucket::new(4, 1).unwrap());
    let mut interrupted = CallContext::default();
    interrupted.set_throttle(Arc::new(Interrupted {
        metrics: metrics.clone(),
        by: Mutex::new(Some(Arc::clone(&drained))),
    }));
    metrics.hedge_refused(&interrupted, StopReason::Throttled);
    call_under(&metrics, None, true).await;
    assert_eq!(level(&kept), 1000, "of the second one");
}
