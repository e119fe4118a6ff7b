//! `MetricsMeter`: instruments of the `metrics` crate.

use std::sync::Arc;

use ::metrics::{
    Key, Label as MetricsLabel, Level, Metadata, Unit, describe_counter, describe_gauge,
    describe_histogram, with_recorder,
};

use super::{
    Counter, Gauge, Histogram, INSTRUMENTS, Instrument, InstrumentKind, Label, LabelValue, Meter,
};

/// Feeds the recorder of the `metrics` crate: the thread's, else the global one (feature
/// `metrics`).
///
/// Create it, and the [`Metrics`](super::Metrics) of it, after the recorder is installed. Each
/// event looks its instrument up in the recorder, so that an exporter may have an idle timeout. The
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

/// An instrument with its labels. Registered at each event: an exporter with an idle timeout drops
/// what rests, and a handle from before would count for nothing.
struct Registered(Key);

static METADATA: Metadata<'static> = Metadata::new("reattempt", Level::INFO, Some(module_path!()));

impl Registered {
    fn new(instrument: &Instrument, labels: &[Label]) -> Self {
        let label = |(key, value): &Label| match value {
            LabelValue::Static(text) => MetricsLabel::from_static_parts(key, text),
            LabelValue::Text(text) => MetricsLabel::new(*key, Arc::clone(text)),
            LabelValue::Number(number) => MetricsLabel::new(*key, number.to_string()),
        };
        let labels: Vec<_> = labels.iter().map(label).collect();
        Self(Key::from_parts(instrument.name, labels))
    }

    fn counter(&self) -> ::metrics::Counter {
        with_recorder(|recorder| recorder.register_counter(&self.0, &METADATA))
    }

    fn gauge(&self) -> ::metrics::Gauge {
        with_recorder(|recorder| recorder.register_gauge(&self.0, &METADATA))
    }

    fn histogram(&self) -> ::metrics::Histogram {
        with_recorder(|recorder| recorder.register_histogram(&self.0, &METADATA))
    }
}

/// Counters are registered at once, so that they begin with zero. A gauge that is not set yet has
/// no value: zero tokens would be an empty throttle.
impl Meter for MetricsMeter {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        let registered = Registered::new(instrument, labels);
        drop(registered.counter());
        Arc::new(registered)
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(Registered::new(instrument, labels))
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        Arc::new(Registered::new(instrument, labels))
    }
}

impl Counter for Registered {
    fn increment(&self) {
        self.counter().increment(1);
    }
}

impl Gauge for Registered {
    fn set(&self, value: f64) {
        self.gauge().set(value);
    }
}

impl Histogram for Registered {
    fn record(&self, value: f64) {
        self.histogram().record(value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    // Not std's on targets of 32 bits.
    use ::metrics::atomics::AtomicU64;
    use ::metrics::{KeyName, Recorder, SharedString};

    use super::super::{STOPPED, THROTTLE};
    use super::*;

    /// An exporter, with the values of its instruments.
    #[derive(Default)]
    struct Exporter(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Exporter {
        fn row(&self, key: &Key) -> Arc<AtomicU64> {
            let mut rows = self.0.lock().unwrap();
            Arc::clone(rows.entry(key.name().to_owned()).or_default())
        }

        fn read(&self) -> Vec<(String, u64)> {
            let rows = self.0.lock().unwrap();
            let read = |(name, value): (&String, &Arc<AtomicU64>)| {
                (name.clone(), value.load(Ordering::Relaxed))
            };
            rows.iter().map(read).collect()
        }
    }

    impl Recorder for Exporter {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> ::metrics::Counter {
            ::metrics::Counter::from_arc(self.row(key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> ::metrics::Gauge {
            ::metrics::Gauge::from_arc(self.row(key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> ::metrics::Histogram {
            ::metrics::Histogram::noop()
        }
    }

    #[test]
    fn an_exporter_that_forgot_an_instrument_gets_its_next_event() {
        let exporter = Exporter::default();
        ::metrics::with_local_recorder(&exporter, || {
            let meter = MetricsMeter::new();
            let counter = meter.counter(&STOPPED, &[]);
            let gauge = meter.gauge(&THROTTLE, &[]);
            let rows = |stopped, tokens: f64| {
                [
                    (STOPPED.name.to_owned(), stopped),
                    (THROTTLE.name.to_owned(), tokens.to_bits()),
                ]
            };
            assert_eq!(
                exporter.read(),
                rows(0, 0.0)[..1],
                "a counter begins with zero"
            );
            counter.increment();
            exporter.0.lock().unwrap().clear();
            counter.increment();
            gauge.set(2.0);
            assert_eq!(exporter.read(), rows(1, 2.0));
        });
    }
}
