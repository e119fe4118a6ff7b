//! `MetricsMeter`: instruments of the `metrics` crate.

use std::sync::Arc;

use ::metrics::{
    Label as MetricsLabel, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use super::{
    Counter, Gauge, Histogram, INSTRUMENTS, Instrument, InstrumentKind, Label, LabelValue, Meter,
};

/// Feeds the recorder of the `metrics` crate: the thread's, else the global one (feature
/// `metrics`).
///
/// Create it, and the [`Metrics`](super::Metrics) of it, after the recorder is installed. The
/// `metrics` crate has no buckets: pass [`Instrument::boundaries`] to your exporter.
#[derive(Clone, Copy, Debug)]
pub struct MetricsMeter(());

impl MetricsMeter {
    /// Describes all instruments to the recorder.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it tells the recorder")]
    pub fn new() -> Self {
        for instrument in INSTRUMENTS {
            let (name, description) = (instrument.name, instrument.description);
            let unit = match instrument.unit {
                "s" => Unit::Seconds,
                _ => Unit::Count,
            };
            match instrument.kind {
                InstrumentKind::Counter => describe_counter!(name, unit, description),
                InstrumentKind::Gauge => describe_gauge!(name, unit, description),
                InstrumentKind::Histogram => describe_histogram!(name, unit, description),
            }
        }
        Self(())
    }
}

fn of(labels: &[Label]) -> Vec<MetricsLabel> {
    let label = |(key, value): &Label| match value {
        LabelValue::Static(text) => MetricsLabel::from_static_parts(key, text),
        LabelValue::Text(text) => MetricsLabel::new(*key, Arc::clone(text)),
        LabelValue::Number(number) => MetricsLabel::new(*key, number.to_string()),
    };
    labels.iter().map(label).collect()
}

impl Meter for MetricsMeter {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        Arc::new(counter!(instrument.name, of(labels)))
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(gauge!(instrument.name, of(labels)))
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        Arc::new(histogram!(instrument.name, of(labels)))
    }
}

impl Counter for ::metrics::Counter {
    fn increment(&self) {
        Self::increment(self, 1);
    }
}

impl Gauge for ::metrics::Gauge {
    fn set(&self, value: f64) {
        Self::set(self, value);
    }
}

impl Histogram for ::metrics::Histogram {
    fn record(&self, value: f64) {
        Self::record(self, value);
    }
}
