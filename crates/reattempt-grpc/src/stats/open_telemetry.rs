//! `OpenTelemetryMeter`: sends metrics to an OpenTelemetry meter.

use std::fmt;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use super::{GrpcMeter, Instrument, InstrumentKind, Labels};

/// Feeds instruments of an OpenTelemetry meter (feature `opentelemetry`, which uses only the
/// OpenTelemetry API).
///
/// Name, unit, description and bucket boundaries are the [`Instrument`]'s; a view of your SDK may
/// change them.
///
/// ```
/// use opentelemetry::global;
/// use reattempt_grpc::stats::{GrpcStats, OpenTelemetryMeter};
///
/// let meter = OpenTelemetryMeter::new(&global::meter("reattempt"));
/// let stats = GrpcStats::new(meter, "dns:///shop.example.com:443");
/// ```
pub struct OpenTelemetryMeter(Vec<Made>);

enum Made {
    Counter(Counter<u64>),
    Seconds(Histogram<f64>),
    Whole(Histogram<u64>),
}

impl OpenTelemetryMeter {
    /// Creates all instruments.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let made = Instrument::ALL.iter().map(|instrument| {
            let (name, unit) = (instrument.name(), instrument.unit());
            let (description, boundaries) =
                (instrument.description(), instrument.boundaries().to_vec());
            match (instrument.kind(), unit) {
                (InstrumentKind::Counter, _) => {
                    let counter = meter.u64_counter(name).with_unit(unit);
                    Made::Counter(counter.with_description(description).build())
                }
                (InstrumentKind::Histogram, "s") => {
                    let histogram = meter.f64_histogram(name).with_unit(unit);
                    let histogram = histogram.with_boundaries(boundaries);
                    Made::Seconds(histogram.with_description(description).build())
                }
                (InstrumentKind::Histogram, _) => {
                    let histogram = meter.u64_histogram(name).with_unit(unit);
                    let histogram = histogram.with_boundaries(boundaries);
                    Made::Whole(histogram.with_description(description).build())
                }
            }
        });
        Self(made.collect())
    }

    fn made(&self, instrument: Instrument) -> Option<&Made> {
        self.0.get(instrument as usize)
    }
}

impl fmt::Debug for OpenTelemetryMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryMeter").finish_non_exhaustive()
    }
}

fn with_attributes(labels: &Labels<'_>, tell: impl FnOnce(&[KeyValue])) {
    let method = KeyValue::new(Labels::METHOD, Arc::clone(labels.method));
    let target = KeyValue::new(Labels::TARGET, Arc::clone(labels.target));
    match labels.status {
        None => tell(&[method, target]),
        Some(code) => tell(&[method, target, KeyValue::new(Labels::STATUS, code.name())]),
    }
}

impl GrpcMeter for OpenTelemetryMeter {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        if let Some(Made::Counter(counter)) = self.made(instrument) {
            with_attributes(labels, |attributes| counter.add(value, attributes));
        }
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        with_attributes(labels, |attributes| match self.made(instrument) {
            Some(Made::Seconds(histogram)) => histogram.record(value, attributes),
            // The value is an integer, passed as a float.
            Some(Made::Whole(histogram)) => histogram.record(value as u64, attributes),
            Some(Made::Counter(_)) | None => {}
        });
    }
}
