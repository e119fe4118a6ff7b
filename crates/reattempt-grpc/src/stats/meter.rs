//! `GrpcMeter`: receives the metrics.

use std::fmt::Debug;
use std::sync::Arc;

use super::Instrument;
use crate::Code;

/// The labels of a value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Labels<'a> {
    /// `grpc.method`: service and method, `shop.Cart/Add`, or `other`.
    pub method: &'a Arc<str>,
    /// `grpc.target`: the server, as given to [`GrpcStats`](super::GrpcStats).
    pub target: &'a Arc<str>,
    /// `grpc.status`, for instruments that have that label.
    pub status: Option<Code>,
}

impl Labels<'_> {
    /// The key of [`Labels::method`].
    pub const METHOD: &'static str = "grpc.method";
    /// The key of [`Labels::target`].
    pub const TARGET: &'static str = "grpc.target";
    /// The key of [`Labels::status`].
    pub const STATUS: &'static str = "grpc.status";
}

/// Receives the values of all [`Instrument`]s: OpenTelemetry, the `metrics` crate, or your own.
///
/// Called inline: return quickly and never block. A pair of meters feeds both.
pub trait GrpcMeter: Debug + Send + Sync {
    /// Adds to a counter.
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>);

    /// Records a value of a histogram, in the instrument's unit. Sizes and counts are integers.
    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>);
}

/// No metrics, if only the [`RetryStatistics`](super::RetryStatistics) are needed.
impl GrpcMeter for () {
    fn add(&self, _: Instrument, _: u64, _: &Labels<'_>) {}

    fn record(&self, _: Instrument, _: f64, _: &Labels<'_>) {}
}

impl<A: GrpcMeter, B: GrpcMeter> GrpcMeter for (A, B) {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        self.0.add(instrument, value, labels);
        self.1.add(instrument, value, labels);
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        self.0.record(instrument, value, labels);
        self.1.record(instrument, value, labels);
    }
}

impl<M: GrpcMeter + ?Sized> GrpcMeter for Arc<M> {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        (**self).add(instrument, value, labels);
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        (**self).record(instrument, value, labels);
    }
}
