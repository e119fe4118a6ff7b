//! `OpenTelemetryMeter`: instruments of an OpenTelemetry meter.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics;

use super::{Counter, Gauge, Histogram, Instrument, Label, LabelValue, Meter};

/// Feeds instruments of an OpenTelemetry meter (feature `opentelemetry`, which uses only the
/// OpenTelemetry API). A counter is read when the SDK collects; a view of it may change names and
/// buckets.
///
/// Create one for a meter, in one [`Metrics`](super::Metrics) that all clients share: counters of a
/// second one would replace those of the first when the SDK collects. So a second one is logged at
/// WARN while the first exists; with an SDK of its own it is right.
pub struct OpenTelemetryMeter {
    meter: metrics::Meter,
    /// The counters of each instrument, with their labels.
    counters: Mutex<HashMap<&'static str, Arc<Counters>>>,
    histograms: Mutex<HashMap<&'static str, metrics::Histogram<f64>>>,
}

/// How many there are: the API does not tell whether two of them feed the same SDK.
static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Drop for OpenTelemetryMeter {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

type Counters = Mutex<Vec<(Vec<KeyValue>, Arc<AtomicU64>)>>;

impl OpenTelemetryMeter {
    /// Creates instruments of this meter.
    #[must_use]
    pub fn new(meter: &metrics::Meter) -> Self {
        if LIVE.fetch_add(1, Ordering::Relaxed) > 0 {
            tracing::warn!(
                target: "reattempt",
                "a second OpenTelemetryMeter: if both feed the same SDK, the counters of one hide \
                 those of the other; create one Metrics and give a clone of it to each client"
            );
        }
        Self {
            meter: meter.clone(),
            counters: Mutex::default(),
            histograms: Mutex::default(),
        }
    }

    fn observed(&self, instrument: &'static Instrument) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        let read = Arc::clone(&counters);
        // The meter keeps it.
        let _ = self
            .meter
            .u64_observable_counter(instrument.name)
            .with_unit(instrument.unit)
            .with_description(instrument.description)
            .with_callback(move |observer| {
                // Copied: the SDK's code must not run inside the lock.
                let counters = read.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for (labels, count) in counters {
                    observer.observe(count.load(Ordering::Relaxed), &labels);
                }
            })
            .build();
        counters
    }
}

impl fmt::Debug for OpenTelemetryMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryMeter").finish_non_exhaustive()
    }
}

fn attributes(labels: &[Label]) -> Vec<KeyValue> {
    let attribute = |(key, value): &Label| match value {
        LabelValue::Static(text) => KeyValue::new(*key, *text),
        LabelValue::Text(text) => KeyValue::new(*key, Arc::clone(text)),
        LabelValue::Number(number) => KeyValue::new(*key, *number),
    };
    labels.iter().map(attribute).collect()
}

impl Meter for OpenTelemetryMeter {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        let all = || self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all().get(instrument.name).map(Arc::clone);
        let of_this = known.unwrap_or_else(|| {
            let new = self.observed(instrument);
            Arc::clone(all().entry(instrument.name).or_insert(new))
        });
        let labels = attributes(labels);
        let mut rows = of_this.lock().unwrap_or_else(PoisonError::into_inner);
        // The SDK keeps one value for each set of labels.
        if let Some((_, known)) = rows.iter().find(|(known, _)| *known == labels) {
            return Arc::<AtomicU64>::clone(known);
        }
        let count = Arc::new(AtomicU64::new(0));
        rows.push((labels, Arc::clone(&count)));
        count
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        let gauge = self
            .meter
            .f64_gauge(instrument.name)
            .with_unit(instrument.unit)
            .with_description(instrument.description)
            .build();
        Arc::new(Labelled(gauge, attributes(labels)))
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        let all = || {
            let histograms = self.histograms.lock();
            histograms.unwrap_or_else(PoisonError::into_inner)
        };
        let known = all().get(instrument.name).cloned();
        let made = known.unwrap_or_else(|| {
            let new = self
                .meter
                .f64_histogram(instrument.name)
                .with_unit(instrument.unit)
                .with_description(instrument.description)
                .with_boundaries(instrument.boundaries.to_vec())
                .build();
            all().entry(instrument.name).or_insert(new).clone()
        });
        Arc::new(Labelled(made, attributes(labels)))
    }
}

struct Labelled<I>(I, Vec<KeyValue>);

impl Gauge for Labelled<metrics::Gauge<f64>> {
    fn set(&self, value: f64) {
        self.0.record(value, &self.1);
    }
}

impl Histogram for Labelled<metrics::Histogram<f64>> {
    fn record(&self, value: f64) {
        self.0.record(value, &self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_meter_is_logged_while_the_first_exists() {
        let log = crate::test_util::listen();
        let meter = opentelemetry::global::meter("test");
        let first = OpenTelemetryMeter::new(&meter);
        assert_eq!(log.heard(), [""; 0]);
        let second = OpenTelemetryMeter::new(&meter);
        let heard = log.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains("a second OpenTelemetryMeter"));
        drop((first, second));
        drop(OpenTelemetryMeter::new(&meter));
        assert_eq!(log.heard().len(), 1);
    }
}
