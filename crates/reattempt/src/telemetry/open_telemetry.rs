//! `OpenTelemetryMeter`: instruments of an OpenTelemetry meter.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics;

use super::{Counter, Gauge, Histogram, Instrument, InstrumentKind, Label, LabelValue, Meter};

/// Feeds instruments of an OpenTelemetry meter (feature `opentelemetry`, which uses only the
/// OpenTelemetry API). Counters and gauges are read when the SDK collects, so that none is missing
/// from an export because nothing happened; a view of them may change names and buckets.
///
/// Create one for a meter, in one [`Metrics`](super::Metrics) that all clients share: counters and
/// gauges of a second one would replace those of the first when the SDK collects. So a second one
/// is logged at WARN while the first exists; with an SDK of its own it is right.
pub struct OpenTelemetryMeter {
    meter: metrics::Meter,
    /// The counters and gauges of each instrument, with their labels.
    observed: Mutex<HashMap<&'static str, Arc<Rows>>>,
    histograms: Mutex<HashMap<&'static str, metrics::Histogram<f64>>>,
}

/// How many there are: the API does not tell whether two of them feed the same SDK.
static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Drop for OpenTelemetryMeter {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The count of a counter, the bits of a gauge's value.
type Rows = Mutex<Vec<(Vec<KeyValue>, Arc<AtomicU64>)>>;

/// The bits of a gauge that is not set yet: it has no value.
const UNSET: u64 = f64::NAN.to_bits();

/// Calls `observe` with each row. Copied: the SDK's code must not run inside the lock.
fn each(rows: &Rows, mut observe: impl FnMut(u64, &[KeyValue])) {
    let rows = rows.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (labels, value) in rows {
        observe(value.load(Ordering::Relaxed), &labels);
    }
}

impl OpenTelemetryMeter {
    /// Creates instruments of this meter.
    #[must_use]
    pub fn new(meter: &metrics::Meter) -> Self {
        if LIVE.fetch_add(1, Ordering::Relaxed) > 0 {
            tracing::warn!(
                target: "reattempt",
                "a second OpenTelemetryMeter: if both feed the same SDK, the counters and gauges \
                 of one hide those of the other; create one Metrics and give a clone of it to each \
                 client"
            );
        }
        Self {
            meter: meter.clone(),
            observed: Mutex::default(),
            histograms: Mutex::default(),
        }
    }

    /// Registers it with the meter, which keeps it.
    fn register(&self, instrument: &'static Instrument) -> Arc<Rows> {
        let rows = Arc::<Rows>::default();
        let read = Arc::clone(&rows);
        let (name, unit, description) = (instrument.name, instrument.unit, instrument.description);
        if instrument.kind == InstrumentKind::Gauge {
            let gauge = self.meter.f64_observable_gauge(name).with_unit(unit);
            let gauge = gauge.with_description(description);
            // The SDK keeps callbacks for ever. A gauge that nothing sets any more has no value.
            let read = Arc::downgrade(&read);
            let _ = gauge
                .with_callback(move |observer| {
                    let Some(read) = read.upgrade() else { return };
                    each(&read, |bits, labels| {
                        if bits != UNSET {
                            observer.observe(f64::from_bits(bits), labels);
                        }
                    });
                })
                .build();
        } else {
            let counter = self.meter.u64_observable_counter(name).with_unit(unit);
            let counter = counter.with_description(description);
            let _ = counter
                .with_callback(move |observer| {
                    each(&read, |count, labels| observer.observe(count, labels));
                })
                .build();
        }
        rows
    }

    /// The value of these labels: the SDK keeps one for each set of them.
    fn value(
        &self,
        instrument: &'static Instrument,
        labels: &[Label],
        first: u64,
    ) -> Arc<AtomicU64> {
        let all = || self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all().get(instrument.name).map(Arc::clone);
        let of_this = known.unwrap_or_else(|| {
            let new = self.register(instrument);
            Arc::clone(all().entry(instrument.name).or_insert(new))
        });
        let labels = attributes(labels);
        let mut rows = of_this.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = rows.iter().find(|(known, _)| *known == labels) {
            return Arc::clone(known);
        }
        let value = Arc::new(AtomicU64::new(first));
        rows.push((labels, Arc::clone(&value)));
        value
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
        self.value(instrument, labels, 0)
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(Observed(self.value(instrument, labels, UNSET)))
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

/// A histogram with its labels.
struct Labelled(metrics::Histogram<f64>, Vec<KeyValue>);

/// A gauge, by the bits of its value.
struct Observed(Arc<AtomicU64>);

impl Gauge for Observed {
    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Histogram for Labelled {
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
        assert_eq!(log.warnings(), [""; 0]);
        let second = OpenTelemetryMeter::new(&meter);
        let warnings = log.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("a second OpenTelemetryMeter"));
        drop((first, second));
        drop(OpenTelemetryMeter::new(&meter));
        assert_eq!(log.warnings().len(), 1);
    }
}
