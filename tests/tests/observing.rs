//! Metrics of a client as the `opentelemetry` SDK and the `metrics` crate receive them, and the
//! pages about them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use metrics::{Key, KeyName, SharedString, Unit};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider,
    Temporality,
};
use reattempt::StopReason;
use reattempt::telemetry::{
    INSTRUMENTS, InstrumentKind, Meter, Metrics, MetricsMeter, OpenTelemetryMeter, THROTTLE,
};
use reattempt_http::{HttpClassifier, HttpClientLayer, HttpConvention};
use tower::{ServiceBuilder, ServiceExt};

/// One call through the preset: 503 after 10 ms, then 200 after 20 ms. Returns what counted it.
async fn call(meter: impl Meter + 'static) -> Metrics {
    let metrics = Metrics::new(meter);
    let calls = Arc::new(AtomicU32::new(0));
    let client = ServiceBuilder::new()
        .layer(HttpClientLayer::standard().observer(Arc::new(metrics.clone())))
        .layer(metrics.attempts(HttpConvention, HttpClassifier::new()))
        .service_fn(move |_: Request<_>| {
            let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            let (status, millis) = if first { (503, 10) } else { (200, 20) };
            async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                let response = Response::builder().status(status);
                Ok::<_, std::io::Error>(response.body(Empty::<Bytes>::new()).unwrap())
            }
        });
    let request = Request::get("http://shop:8080/carts/7");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    assert_eq!(client.oneshot(request).await.unwrap().status(), 200);
    metrics
}

/// How often an instrument was fed with these labels, and the sum of its values; of a gauge the
/// latest value.
type Fed = (u64, f64);

/// What that call is counted as; zeros are left out.
fn expected() -> BTreeMap<String, Fed> {
    let attempt = |error: &str, status: u32| {
        format!(
            "http.client.request.duration {error}http.request.method=GET,\
             http.response.status_code={status},server.address=shop,server.port=8080"
        )
    };
    let failed = "outcome=failed,reason=HTTP_SERVICE_UNAVAILABLE,stage=response";
    let failed = format!("reattempt.attempts kind=initial,{failed}");
    let retried = "reattempt.attempts kind=retry,outcome=success";
    BTreeMap::from([
        (failed, (1, 1.0)),
        (retried.to_owned(), (1, 1.0)),
        ("reattempt.stopped reason=success".to_owned(), (1, 1.0)),
        // The bucket of this origin, above its half: a failure, and a success.
        ("reattempt.throttle.tokens ".to_owned(), (1, 49.1)),
        (attempt("error.type=503,", 503), (1, 0.01)),
        (attempt("", 200), (1, 0.02)),
    ])
}

fn named(name: &str, labels: impl Iterator<Item = (String, String)>) -> String {
    let mut labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort();
    format!("{name} {}", labels.join(","))
}

#[tokio::test(start_paused = true)]
async fn opentelemetry_gets_counts_and_durations_of_a_client() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let _metrics = call(OpenTelemetryMeter::new(&provider.meter("reattempt"))).await;
    provider.force_flush().unwrap();
    let exported = exporter.get_finished_metrics().unwrap();
    let mut found = BTreeMap::new();
    let scopes = exported.last().unwrap().scope_metrics();
    for metric in scopes.flat_map(|scope| scope.metrics()) {
        let instrument = INSTRUMENTS.iter().find(|known| known.name == metric.name());
        let instrument = instrument.expect("an instrument of the list");
        assert_eq!(metric.unit(), instrument.unit);
        assert_eq!(metric.description(), instrument.description);
        let label =
            |label: &opentelemetry::KeyValue| (label.key.to_string(), label.value.to_string());
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                assert!(sum.is_monotonic());
                found.extend(sum.data_points().map(|point| {
                    let name = named(metric.name(), point.attributes().map(label));
                    (name, (point.value(), point.value() as f64))
                }));
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                found.extend(histogram.data_points().map(|point| {
                    assert!(point.bounds().eq(instrument.boundaries.iter().copied()));
                    let name = named(metric.name(), point.attributes().map(label));
                    (name, (point.count(), point.sum()))
                }));
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                found.extend(gauge.data_points().map(|point| {
                    let name = named(metric.name(), point.attributes().map(label));
                    (name, (1, point.value()))
                }));
            }
            other => panic!("{other:?}"),
        }
    }
    found.retain(|_, (count, _)| *count > 0);
    assert_eq!(found, expected());
}

/// With delta temporality the SDK forgets after each export what was recorded, and so it would the
/// gauge of a throttle that no call has used since.
#[tokio::test(start_paused = true)]
async fn opentelemetry_has_the_gauge_in_each_export() {
    let exporter = InMemoryMetricExporterBuilder::new()
        .with_temporality(Temporality::Delta)
        .build();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = OpenTelemetryMeter::new(&provider.meter("reattempt"));
    let gauge = meter.gauge(&THROTTLE, &[]);
    let exported = || {
        exporter.reset();
        provider.force_flush().unwrap();
        let exported = exporter.get_finished_metrics().unwrap();
        let metrics = exported.iter().flat_map(|one| one.scope_metrics());
        let metrics = metrics.flat_map(|scope| scope.metrics());
        let levels = metrics.filter_map(|metric| match metric.data() {
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge.data_points().next().map(|point| point.value())
            }
            _ => None,
        });
        levels.collect::<Vec<_>>()
    };
    assert_eq!(exported(), [0.0; 0], "it has no value yet");
    gauge.set(0.0);
    assert_eq!([exported(), exported()], [[0.0], [0.0]]);
    gauge.set(1.5);
    assert_eq!(exported(), [1.5]);
    drop(meter);
    assert_eq!(exported(), [0.0; 0], "nothing sets it any more");
}

/// Keeps what handles of the `metrics` crate receive.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<String, Arc<Row>>>>);

#[derive(Default)]
struct Row(Mutex<Fed>);

impl Row {
    fn add(&self, times: u64, value: f64) {
        let mut fed = self.0.lock().unwrap();
        *fed = (fed.0 + times, fed.1 + value);
    }
}

impl metrics::CounterFn for Row {
    fn increment(&self, value: u64) {
        self.add(value, value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("it counts up")
    }
}

impl metrics::HistogramFn for Row {
    fn record(&self, value: f64) {
        self.add(1, value);
    }
}

impl metrics::GaugeFn for Row {
    fn increment(&self, _: f64) {
        unreachable!("it is set")
    }

    fn decrement(&self, _: f64) {
        unreachable!("it is set")
    }

    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = (1, value);
    }
}

impl Recorder {
    fn row(&self, key: &Key) -> Arc<Row> {
        let labels = key.labels();
        let owned = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        let name = named(key.name(), owned);
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.row(key))
    }

    fn register_gauge(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.row(key))
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.row(key))
    }
}

#[test]
fn the_metrics_crate_gets_counts_and_durations_of_a_client() {
    let recorder = Recorder::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(call(MetricsMeter::new())));
    let rows = recorder.0.lock().unwrap();
    let read = rows
        .iter()
        .map(|(name, row)| (name.clone(), *row.0.lock().unwrap()));
    let found: BTreeMap<_, _> = read.filter(|(_, (count, _))| *count > 0).collect();
    assert_eq!(found, expected());
}

fn page(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).expect("a text")
}

#[test]
fn the_glossary_explains_each_stop_reason() {
    let glossary = page("docs/glossary.md");
    for stopped in StopReason::ALL {
        let row = format!("\n| `{}` | ", stopped.name());
        assert!(glossary.contains(&row), "{}", stopped.name());
    }
}

/// Prometheus' names: dots are underscores. OpenTelemetry's exporter ends a counter in `_total` and
/// seconds in `_seconds`, that of the `metrics` crate does not.
#[test]
fn the_dashboard_asks_for_every_metric_and_no_other() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&page("docs/grafana/reattempt.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked: String = targets
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    for (counter, seconds) in [("_total", "_seconds"), ("", "")] {
        let asked = asked.replace("(_total)?", counter);
        let asked = asked.replace("(_seconds)?", seconds);
        asks_for_all(&asked, counter, seconds);
    }
}

fn asks_for_all(asked: &str, counter: &str, seconds: &str) {
    let words = asked.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = ["reattempt_", "http_client_", "db_client_"];
    let mut found: HashSet<_> = words
        .filter(|word| names.iter().any(|name| word.starts_with(name)))
        .collect();
    for instrument in INSTRUMENTS {
        let name = instrument.name.replace('.', "_");
        let ends = match instrument.kind {
            InstrumentKind::Counter => vec![counter.to_owned()],
            InstrumentKind::Gauge => vec![String::new()],
            InstrumentKind::Histogram => ["_bucket", "_count"]
                .map(|end| format!("{seconds}{end}"))
                .to_vec(),
        };
        for end in ends {
            let name = format!("{name}{end}");
            assert!(found.remove(name.as_str()), "{name}");
        }
    }
    assert!(found.is_empty(), "{found:?}");
}
