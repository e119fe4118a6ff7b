//! `MetricsMeter`: sends metrics to the `metrics` crate.

use std::sync::Arc;

use metrics::{Label, Unit};

use super::{GrpcMeter, Instrument, InstrumentKind, Labels};

/// Feeds the recorder of the `metrics` crate: the thread's, else the global one (feature
/// `metrics`).
///
/// Create it after the recorder is installed; otherwise units and descriptions are lost. The
/// `metrics` crate has no buckets: pass [`Instrument::boundaries`] to your exporter.
///
/// ```
/// use reattempt_grpc::stats::{GrpcStats, MetricsMeter};
///
/// let stats = GrpcStats::new(MetricsMeter::new(), "dns:///shop.example.com:443");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MetricsMeter(());

impl MetricsMeter {
    /// Describes all instruments to the recorder.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it tells the recorder")]
    pub fn new() -> Self {
        for instrument in Instrument::ALL {
            let (name, description) = (instrument.name(), instrument.description());
            let unit = match instrument.unit() {
                "s" => Unit::Seconds,
                "By" => Unit::Bytes,
                _ => Unit::Count,
            };
            match instrument.kind() {
                InstrumentKind::Counter => metrics::describe_counter!(name, unit, description),
                InstrumentKind::Histogram => metrics::describe_histogram!(name, unit, description),
            }
        }
        Self(())
    }
}

fn labels_of(labels: &Labels<'_>) -> Vec<Label> {
    let mut all = Vec::with_capacity(3);
    all.push(Label::new(Labels::METHOD, Arc::clone(labels.method)));
    all.push(Label::new(Labels::TARGET, Arc::clone(labels.target)));
    if let Some(code) = labels.status {
        all.push(Label::new(Labels::STATUS, code.name()));
    }
    all
}

impl GrpcMeter for MetricsMeter {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        metrics::counter!(instrument.name(), labels_of(labels)).increment(value);
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        metrics::histogram!(instrument.name(), labels_of(labels)).record(value);
    }
}
