//! `Meter`: receives the metrics.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Instrument;

/// A label: its key, in OpenTelemetry's spelling, and its value.
pub type Label = (&'static str, LabelValue);

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LabelValue {
    /// One of a known set.
    Static(&'static str),
    /// A name that is known only at run time, such as a host.
    Text(Arc<str>),
    /// A number, such as a port or a status.
    Number(i64),
}

/// Creates the instruments: OpenTelemetry's, those of the `metrics` crate, or your own.
///
/// Asked once for each set of labels; the sets are bounded. What it returns is kept, and called
/// inline: it returns quickly and never blocks.
pub trait Meter: Debug + Send + Sync {
    /// A counter with these labels.
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter>;

    /// A gauge with these labels.
    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge>;

    /// A histogram with these labels.
    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram>;
}

/// A counter with its labels.
pub trait Counter: Send + Sync {
    /// Counts one more.
    fn increment(&self);
}

/// A gauge with its labels.
pub trait Gauge: Send + Sync {
    /// Sets the value.
    fn set(&self, value: f64);
}

/// A histogram with its labels.
pub trait Histogram: Send + Sync {
    /// Records a value, in the instrument's unit.
    fn record(&self, value: f64);
}

impl Counter for AtomicU64 {
    fn increment(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps nothing: for spans alone.
impl Meter for () {
    fn counter(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Counter> {
        Arc::new(())
    }

    fn gauge(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(())
    }

    fn histogram(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Histogram> {
        Arc::new(())
    }
}

impl Counter for () {
    fn increment(&self) {}
}

impl Gauge for () {
    fn set(&self, _: f64) {}
}

impl Histogram for () {
    fn record(&self, _: f64) {}
}

impl<M: Meter + ?Sized> Meter for Arc<M> {
    fn counter(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Counter> {
        (**self).counter(instrument, labels)
    }

    fn gauge(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Gauge> {
        (**self).gauge(instrument, labels)
    }

    fn histogram(&self, instrument: &'static Instrument, labels: &[Label]) -> Arc<dyn Histogram> {
        (**self).histogram(instrument, labels)
    }
}
