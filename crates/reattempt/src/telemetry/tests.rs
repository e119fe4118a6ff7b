use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::*;
use crate::failure::reason::KV_LOCKED;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::MaxAttempts;
use crate::test_util::{Answer, Fault, Step, attempt, ms, probe, verdict};
use crate::{
    Call, CallContext, DeadlineLayer, Failure, HasCallContext, HedgeLayer, HedgePolicy,
    Idempotency, RetryLayer, RoutePolicy, ServerPushback, Stage, ThrottleLayer, TokenBucket,
    Verdict,
};

mod gauge;
mod spans;
mod wire;

/// Keeps every value under its name and labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Kept {
    fn row(&self, instrument: &Instrument, labels: &[Label]) -> Arc<AtomicU64> {
        let labels: Vec<_> = labels
            .iter()
            .map(|(key, value)| match value {
                LabelValue::Static(text) => format!("{key}={text}"),
                LabelValue::Text(text) => format!("{key}={text}"),
                LabelValue::Number(number) => format!("{key}={number}"),
            })
            .collect();
        let name = format!("{} {}", instrument.name, labels.join(","));
        let row = Arc::<AtomicU64>::default();
        let before = self.0.lock().unwrap().insert(name, Arc::clone(&row));
        assert!(before.is_none(), "asked once for each set of labels");
        row
    }

    /// The rows whose name begins like this, without that beginning, and without those of zero.
    pub(super) fn of(&self, begins: &str) -> Vec<(String, u64)> {
        let rows = self.0.lock().unwrap();
        let read = rows.iter().filter_map(|(name, count)| {
            let rest = name.strip_prefix(begins)?.trim_start().to_owned();
            Some((rest, count.load(Ordering::Relaxed)))
        });
        read.filter(|(_, count)| *count > 0).collect()
    }

    /// The rows that begin like this, of zero too.
    pub(super) fn known(&self, begins: &str) -> usize {
        let rows = self.0.lock().unwrap();
        rows.keys().filter(|name| name.starts_with(begins)).count()
    }

    pub(super) fn sum(&self, begins: &str) -> u64 {
        self.of(begins).iter().map(|(_, count)| count).sum()
    }
}

/// A gauge of thousandths, and a histogram that counts its values.
struct Row(Arc<AtomicU64>);

impl Gauge for Row {
    fn set(&self, value: f64) {
        self.0.store((value * 1000.0) as u64, Ordering::Relaxed);
    }
}

impl Histogram for Row {
    fn record(&self, _: f64) {
        self.0.increment();
    }
}

impl Meter for Kept {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        self.row(instrument, labels)
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(Row(self.row(instrument, labels)))
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        Arc::new(Row(self.row(instrument, labels)))
    }
}

pub(super) fn metrics() -> (Kept, Metrics) {
    let kept = Kept::default();
    (kept.clone(), Metrics::new(kept))
}

fn rows<const N: usize>(rows: [(&str, u64); N]) -> Vec<(String, u64)> {
    rows.map(|(name, count)| (name.to_owned(), count)).to_vec()
}

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

fn retry(metrics: &Metrics) -> RetryLayer<Verdicts> {
    let three = MaxAttempts::new(3, Backoff::constant(ms(10)));
    RetryLayer::new(verdict as Verdicts, three).observer(Arc::new(metrics.clone()))
}

#[tokio::test(start_paused = true)]
async fn attempts_count_by_kind_outcome_reason_and_stage() {
    let (kept, metrics) = metrics();
    let saved = probe([attempt(1).fails(KV_LOCKED), attempt(2)]);
    let at_once = probe([attempt(1)]);
    let failed = probe([attempt(1).fails_fatally(KV_LOCKED)]);
    let committed = probe([attempt(1).commits()]);
    for probe in [saved, at_once, failed, committed] {
        let _ = retry(&metrics)
            .layer(probe.inner())
            .oneshot(probe.request())
            .await;
    }
    let expected = rows([
        ("kind=initial,outcome=committed", 1),
        (
            "kind=initial,outcome=failed,reason=KV_LOCKED,stage=response",
            2,
        ),
        ("kind=initial,outcome=success", 1),
        ("kind=retry,outcome=success", 1),
    ]);
    assert_eq!(kept.of("reattempt.attempts"), expected);
    // Those without a failure begin at zero: four kinds, three outcomes.
    assert_eq!(kept.known("reattempt.attempts"), 4 * 3 + 1);
    let expected = rows([
        ("reason=committed", 1),
        ("reason=fatal", 1),
        ("reason=success", 2),
    ]);
    assert_eq!(kept.of("reattempt.stopped"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_circuit_breaker_counts_by_its_reason() {
    let (kept, metrics) = metrics();
    let policy = crate::health::HealthPolicy::standard();
    let now = tokio::time::Instant::now().into_std();
    let breaker = Arc::new(crate::health::CircuitBreaker::new(policy, now));
    breaker.open();
    let refused =
        |_: crate::circuit_breaker::CircuitOpen| -> Result<Answer, Fault> { Err(Fault::Broken) };
    let circuit = crate::CircuitBreakerLayer::new(breaker, verdict as Verdicts).on_open(refused);
    let never = probe([]);
    let client = retry(&metrics).layer(circuit.layer(never.inner()));
    assert!(client.oneshot(never.request()).await.is_err());
    let row = "kind=initial,outcome=failed,reason=CIRCUIT_BREAKER_OPEN,stage=dispatch";
    assert_eq!(kept.of("reattempt.attempts"), rows([(row, 1)]));
}

#[test]
fn changes_of_health_count_by_change_and_cause() {
    let (kept, metrics) = metrics();
    let known = ["reattempt.health.changes", "reattempt.response.failures"];
    let known = known.map(|name| kept.known(name));
    assert_eq!(known, [12, 2], "a rate sees the first of each");
    let policy = crate::health::HealthPolicy::standard();
    let now = tokio::time::Instant::now().into_std();
    let breaker = Arc::new(crate::health::CircuitBreaker::new(policy, now));
    breaker.on_event(move |event| crate::Observer::health_changed(&metrics, event));
    for _ in 0..2 {
        breaker.open();
        breaker.automatic();
    }
    let expected = rows([
        ("change=closed,cause=by_hand", 2),
        ("change=opened,cause=by_hand", 2),
    ]);
    assert_eq!(kept.of("reattempt.health.changes"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_admitted_counts() {
    use crate::admission::{Admission, Criticality};
    use crate::backoff::Randomness;
    let (kept, metrics) = metrics();
    let admission = Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)));
    (0..10).for_each(|_| admission.ended(Criticality::CRITICAL, false));
    let probe = probe([attempt(1)]);
    let service = tower::ServiceBuilder::new()
        .layer(crate::AdmissionLayer::new(admission).observer(Arc::new(metrics.clone())))
        .layer(crate::ClientErrorLayer)
        .layer(retry(&metrics))
        .service(probe.inner());
    let ended = [(); 3].map(|()| service.clone().oneshot(probe.request()));
    for call in ended {
        let _ = call.await;
    }
    let expected = rows([("reason=admission", 2), ("reason=success", 1)]);
    assert_eq!(kept.of("reattempt.stopped"), expected);
}

#[tokio::test(start_paused = true)]
async fn hedges_are_won_lost_or_refused() {
    let (kept, metrics) = metrics();
    let layer = HedgeLayer::new(verdict as Verdicts, HedgePolicy::new(2, ms(10)))
        .observer(Arc::new(metrics.clone()));
    let won = probe([attempt(1).hangs(), attempt(2)]);
    let lost = probe([attempt(1).after(ms(15)), attempt(2).hangs()]);
    // "Not found", for example: it is the call's answer.
    let final_answer = probe([
        attempt(1).hangs(),
        attempt(2).fails_fatally(crate::reason::UNKNOWN),
    ]);
    let send = async |probe: crate::test_util::Probe, bucket: TokenBucket| {
        let mut request = probe.request();
        let context = request.context_mut();
        context.set_idempotency(Idempotency::Idempotent);
        context.set_throttle(Arc::new(bucket));
        let _ = layer.layer(probe.inner()).oneshot(request).await;
    };
    for probe in [won, lost, final_answer] {
        send(probe, TokenBucket::default()).await;
    }
    let empty = TokenBucket::new(1, 1).unwrap();
    let failure = Failure::new(KV_LOCKED, Stage::Response);
    crate::RetryThrottle::settled(&empty, crate::throttle::Settled::Failure(&failure));
    send(probe([attempt(1).after(ms(15))]), empty).await;
    let expected = rows([("result=lost", 1), ("result=refused", 1), ("result=won", 2)]);
    assert_eq!(kept.of("reattempt.hedges"), expected);
}

/// A call whose response is committed, with what reports its end.
async fn committed(
    metrics: &Metrics,
    throttle: &Arc<TokenBucket>,
) -> (crate::CallHandle, crate::AttemptReporter) {
    let followed = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&followed);
    let inner = tower::service_fn(move |call: Call<()>| {
        *tell.lock().unwrap() = call.context().map(|context| context.reporter().follow());
        std::future::ready(Ok::<_, std::convert::Infallible>(()))
    });
    let committed: fn(Result<&(), &std::convert::Infallible>, &crate::CallContext) -> _ =
        |_, _| crate::Verdict::Committed;
    let layer = RetryLayer::new(committed, crate::strategy::RetryOnce);
    let layer = layer.observer(Arc::new(metrics.clone()));
    let mut service = ThrottleLayer::new(throttle.clone()).layer(layer.layer(inner));
    let mut call = Call::new(());
    let handle = call.context_mut().begin();
    let Ok(()) = service.call(call).await;
    let followed = followed.lock().unwrap().take();
    (handle, followed.unwrap())
}

const BROKEN: Failure = Failure::new(KV_LOCKED, Stage::Response);

/// Once for a call, for the first reason, and only of responses that the call had ended with.
#[tokio::test(start_paused = true)]
async fn a_response_that_fails_after_its_head_counts_once() {
    let (kept, metrics) = metrics();
    let bucket = Arc::new(TokenBucket::new(4, 1000).unwrap());
    let send = || committed(&metrics, &bucket);
    let (_, good) = send().await;
    good.finish(&Verdict::Success);
    let (handle, broken) = send().await;
    broken.finish(&Verdict::Retry(BROKEN));
    handle.response_elapsed();
    let (handle, late) = send().await;
    handle.response_elapsed();
    late.finish(&Verdict::Retry(BROKEN));
    let expected = rows([("reason=KV_LOCKED", 1), ("reason=deadline", 1)]);
    assert_eq!(kept.of("reattempt.response.failures"), expected);
}

/// How far the throttle that is nearest to it is from refusing retries.
fn level(kept: &Kept) -> u64 {
    kept.of("reattempt.throttle.tokens")
        .first()
        .map_or(0, |row| row.1)
}

#[tokio::test(start_paused = true)]
async fn the_gauge_follows_the_emptiest_throttle_until_it_rests() {
    let (kept, metrics) = metrics();
    let bucket = Arc::new(TokenBucket::new(4, 1000).unwrap());
    let send = async |probe: crate::test_util::Probe| {
        let service = ServiceBuilder::new()
            .layer(ThrottleLayer::new(bucket.clone()))
            .layer(retry(&metrics))
            .service(probe.inner());
        let _ = service.oneshot(probe.request()).await;
    };
    send(probe([attempt(1)])).await;
    assert_eq!(level(&kept), 0, "no failure was counted");
    send(probe((1..=3).map(|n| attempt(n).fails(KV_LOCKED)))).await;
    assert_eq!(level(&kept), 0, "the throttle refused the third");
    for expected in [1000, 2000, 2000] {
        send(probe([attempt(1)])).await;
        assert_eq!(level(&kept), expected);
    }
}

/// One call that fails, or succeeds at once, under this throttle.
async fn call_under(metrics: &Metrics, throttle: Option<&Arc<TokenBucket>>, works: bool) {
    let step = if works {
        attempt(1)
    } else {
        attempt(1).fails(KV_LOCKED).pushback(ServerPushback::Stop)
    };
    let probe = probe([step]);
    let service = ServiceBuilder::new()
        .option_layer(throttle.map(|throttle| ThrottleLayer::new(throttle.clone())))
        .layer(retry(metrics))
        .service(probe.inner());
    assert_eq!(service.oneshot(probe.request()).await.is_ok(), works);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_that_was_dropped_holds_the_gauge_down_no_more() {
    let (kept, metrics) = metrics();
    let level = || level(&kept);
    let bucket = Arc::new(TokenBucket::new(4, 1000).unwrap());
    for expected in [1000, 0] {
        call_under(&metrics, Some(&bucket), false).await;
        assert_eq!(level(), expected);
    }
    // The level rests, and the throttle is dropped at rest.
    for _ in 0..200 {
        call_under(&metrics, None, true).await;
    }
    assert_eq!(level(), 0);
    drop(bucket);
    // A state that the thread keeps holds its last throttle until a call attaches another one.
    let other = Arc::new(TokenBucket::new(3, 1000).unwrap());
    for _ in 0..64 {
        call_under(&metrics, Some(&other), true).await;
    }
    assert_eq!(level(), 1000);
}

#[tokio::test(start_paused = true)]
async fn of_many_throttles_the_emptiest_are_watched() {
    let (kept, metrics) = metrics();
    let level = || level(&kept);
    let full: Vec<_> = (0..64)
        .map(|_| Arc::new(TokenBucket::new(100, 1000).unwrap()))
        .collect();
    for bucket in &full {
        call_under(&metrics, Some(bucket), false).await;
    }
    assert_eq!(level(), 49_000);
    let emptier = Arc::new(TokenBucket::new(4, 1000).unwrap());
    call_under(&metrics, Some(&emptier), false).await;
    assert_eq!(level(), 1000);
}

/// A convention of a database with one operation.
#[derive(Clone)]
struct Gets;

impl<T> Convention<Call<T>, Answer> for Gets {
    fn system(&self) -> System {
        System::Db("couchbase")
    }

    fn operation<'a>(&self, _: &'a Call<T>) -> Operation<'a> {
        Operation::new("GET").at(Some("n1"), Some(11210))
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_duration_with_its_error_type() {
    let (kept, metrics) = metrics();
    let answer = attempt(1).fails(KV_LOCKED).code(9);
    let probe = probe([answer, attempt(2).hangs()]);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(30)))
        .layer(retry(&metrics))
        .layer(metrics.attempts(Gets, verdict as Verdicts))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());
    let at = "db.system.name=couchbase,db.operation.name=GET,server.address=n1,server.port=11210";
    let expected = [
        (format!("{at},db.response.status_code=9,error.type=9"), 1),
        (format!("{at},error.type=timeout"), 1),
    ];
    assert_eq!(kept.of("db.client.operation.duration"), expected);
}

#[tokio::test(start_paused = true)]
async fn hosts_beyond_the_bound_are_one() {
    let (kept, metrics) = metrics();
    for host in 0..150 {
        let name = format!("h{host}");
        let operation = Operation::new("GET").at(Some(&name), Some(host));
        let labelled = metrics.0.durations.began(System::Http, &operation);
        metrics.0.durations.ended(&kept, &labelled, Duration::ZERO);
    }
    let found = kept.of("http.client.request.duration");
    assert_eq!(found.len(), 101);
    let other = found
        .iter()
        .find(|(name, _)| name.ends_with("server.address=_OTHER"));
    assert_eq!(other.map(|(_, count)| *count), Some(50));
}
