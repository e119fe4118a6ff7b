//! gRPC metrics (R72) as the `opentelemetry` SDK and the `metrics` crate receive them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, HistogramDataPoint, Metric, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use reattempt::RetryLayer;
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt_grpc::GrpcClassifier;
use reattempt_grpc::stats::{
    GrpcMeter, GrpcStats, Instrument, InstrumentKind, MetricsMeter, OpenTelemetryMeter, Options,
    SentBody,
};
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt};

type Body = UnsyncBoxBody<Bytes, BoxError>;

fn full(bytes: &'static [u8]) -> Full<Bytes> {
    Full::from(bytes)
}

/// A message of three bytes with its prefix.
const FRAME: &[u8] = b"\0\0\0\0\x03pie";

/// One call: UNAVAILABLE after 10 ms, a delay of 50 ms, then OK with a message after 20 ms.
async fn call(meter: impl GrpcMeter + 'static) {
    let options = Options::new().retry_metrics(true);
    let stats = GrpcStats::with_options(meter, "dns:///shop:443", options);
    let calls = Arc::new(AtomicU32::new(0));
    let strategy = MaxAttempts::new(3, Backoff::constant(Duration::from_millis(50)));
    let service = ServiceBuilder::new()
        .layer(stats.call_layer())
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), strategy).observer(stats.observer()))
        .layer(stats.attempt_layer())
        .service_fn(move |request: Request<SentBody<ReplayBody<Full<Bytes>>>>| {
            let before = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                request.into_body().collect().await?;
                if before == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let busy = Response::builder().header("grpc-status", "14");
                    let none: Body = full(b"").map_err(BoxError::from).boxed_unsync();
                    return Ok::<_, BoxError>(busy.body(none)?);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", 0.into());
                let body = full(FRAME).with_trailers(std::future::ready(Some(Ok(trailers))));
                Ok(Response::new(body.map_err(BoxError::from).boxed_unsync()))
            }
        });
    let request = Request::post("http://shop/shop.Cart/Add").body(full(FRAME));
    let answer = service.oneshot(request.unwrap()).await.unwrap();
    answer.into_body().collect().await.unwrap();
}

/// The expected values of that call: instrument and status, count and sum.
fn expected() -> BTreeMap<(&'static str, &'static str), (u64, f64)> {
    use Instrument::*;
    let told = [
        (AttemptStarted, "", 2, 2.0),
        (AttemptDuration, "UNAVAILABLE", 1, 0.01),
        (AttemptDuration, "OK", 1, 0.02),
        (AttemptSent, "UNAVAILABLE", 1, 3.0),
        (AttemptSent, "OK", 1, 3.0),
        (AttemptReceived, "UNAVAILABLE", 1, 0.0),
        (AttemptReceived, "OK", 1, 3.0),
        (CallDuration, "OK", 1, 0.08),
        (CallRetries, "", 1, 1.0),
        (CallRetryDelay, "", 1, 0.05),
    ];
    told.map(|(instrument, status, count, sum)| ((instrument.name(), status), (count, sum)))
        .into()
}

/// The status among these labels, after a check of the others.
fn status_of<'a>(labels: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut labels: BTreeMap<_, _> = labels.into_iter().collect();
    assert_eq!(
        labels.remove("grpc.method").as_deref(),
        Some("shop.Cart/Add")
    );
    assert_eq!(
        labels.remove("grpc.target").as_deref(),
        Some("dns:///shop:443")
    );
    let status = labels.remove("grpc.status").unwrap_or_default();
    assert!(labels.is_empty(), "{labels:?}");
    status
}

fn status_among<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    status_of(attributes.map(|label| (label.key.as_str(), label.value.to_string())))
}

fn point<T: Copy>(
    point: &HistogramDataPoint<T>,
    instrument: Instrument,
    sum: impl Fn(T) -> f64,
) -> (String, (u64, f64)) {
    assert!(point.bounds().eq(instrument.boundaries().iter().copied()));
    let status = status_among(point.attributes());
    (status, (point.count(), sum(point.sum())))
}

/// The points of one metric, after a check of its unit and description.
fn points(metric: &Metric) -> Vec<(String, (u64, f64))> {
    let instrument = Instrument::ALL
        .iter()
        .copied()
        .find(|instrument| instrument.name() == metric.name())
        .unwrap();
    assert_eq!(metric.unit(), instrument.unit());
    assert_eq!(metric.description(), instrument.description());
    match metric.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            assert!(sum.is_monotonic());
            let told = sum.data_points();
            told.map(|point| {
                let value = point.value();
                (status_among(point.attributes()), (value, value as f64))
            })
            .collect()
        }
        AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
            let points = histogram.data_points();
            points
                .map(|each| point(each, instrument, |sum| sum as f64))
                .collect()
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            assert_eq!(metric.unit(), "s");
            let points = histogram.data_points();
            points
                .map(|each| point(each, instrument, |sum| sum))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

/// R72
#[tokio::test(start_paused = true)]
async fn opentelemetry_gets_each_instrument_with_unit_and_buckets() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    call(OpenTelemetryMeter::new(&provider.meter("reattempt"))).await;
    provider.force_flush().unwrap();
    let exported = exporter.get_finished_metrics().unwrap();
    let mut got = BTreeMap::new();
    for scope in exported.last().unwrap().scope_metrics() {
        for metric in scope.metrics() {
            for (status, told) in points(metric) {
                got.insert((metric.name().to_owned(), status), told);
            }
        }
    }
    let owned =
        |((name, status), told): ((&str, &str), _)| ((name.to_owned(), status.to_owned()), told);
    assert_eq!(got, expected().into_iter().map(owned).collect());
}

/// What a recorder of the `metrics` crate received.
#[derive(Default)]
struct Recorded {
    described: BTreeMap<String, (Option<metrics::Unit>, String, InstrumentKind)>,
    values: BTreeMap<(String, String), (u64, f64)>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Recorded>>);

struct Handle {
    recorded: Arc<Mutex<Recorded>>,
    key: (String, String),
}

impl Handle {
    fn of(recorder: &Recorder, key: &metrics::Key) -> Arc<Self> {
        let labels = key.labels();
        let status = status_of(labels.map(|label| (label.key(), label.value().to_owned())));
        Arc::new(Self {
            recorded: Arc::clone(&recorder.0),
            key: (key.name().to_owned(), status),
        })
    }

    fn add(&self, times: u64, value: f64) {
        let mut recorded = self.recorded.lock().unwrap();
        let told = recorded.values.entry(self.key.clone()).or_default();
        *told = (told.0 + times, told.1 + value);
    }
}

impl metrics::CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.add(value, value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("it counts up")
    }
}

impl metrics::HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.add(1, value);
    }
}

impl Recorder {
    fn described(
        &self,
        name: &metrics::KeyName,
        unit: Option<metrics::Unit>,
        text: &str,
        kind: InstrumentKind,
    ) {
        let described = (unit, text.to_owned(), kind);
        let name = name.as_str().to_owned();
        self.0.lock().unwrap().described.insert(name, described);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(
        &self,
        name: metrics::KeyName,
        unit: Option<metrics::Unit>,
        text: metrics::SharedString,
    ) {
        self.described(&name, unit, &text, InstrumentKind::Counter);
    }

    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
        unreachable!("there are no gauges")
    }

    fn describe_histogram(
        &self,
        name: metrics::KeyName,
        unit: Option<metrics::Unit>,
        text: metrics::SharedString,
    ) {
        self.described(&name, unit, &text, InstrumentKind::Histogram);
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(Handle::of(self, key))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        unreachable!("there are no gauges")
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::from_arc(Handle::of(self, key))
    }
}

/// R72
#[tokio::test(start_paused = true)]
async fn the_metrics_crate_gets_every_instrument_described_and_fed() {
    let recorder = Recorder::default();
    let guard = metrics::set_default_local_recorder(&recorder);
    call(MetricsMeter::new()).await;
    drop(guard);
    let recorded = recorder.0.lock().unwrap();
    let owned =
        |((name, status), told): ((&str, &str), _)| ((name.to_owned(), status.to_owned()), told);
    assert_eq!(recorded.values, expected().into_iter().map(owned).collect());
    assert_eq!(recorded.described.len(), Instrument::ALL.len());
    for instrument in Instrument::ALL {
        let unit = match instrument.unit() {
            "s" => metrics::Unit::Seconds,
            "By" => metrics::Unit::Bytes,
            _ => metrics::Unit::Count,
        };
        let described = (
            Some(unit),
            instrument.description().to_owned(),
            instrument.kind(),
        );
        assert_eq!(recorded.described[instrument.name()], described);
    }
}
