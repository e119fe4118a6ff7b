//! Metrics and spans of calls and attempts, the same for every protocol.
//!
//! Create one [`Metrics`] and give a clone of it to each client: no label tells clients apart.
//! There are three parts, and each may be used without the others:
//!
//! | part | position | provides |
//! | --- | --- | --- |
//! | [`CallSpanLayer`] | outermost | a span around each call, for all of its attempts |
//! | [`Metrics`] itself | an observer of the recovery layers, or of a preset | `reattempt.*` |
//! | [`Metrics::attempts`] | directly below the recovery layers, or below a preset | the duration of each attempt, by OpenTelemetry's semantic conventions, and a span around it |
//!
//! | instrument | | unit | labels |
//! | --- | --- | --- | --- |
//! | [`reattempt.attempts`](ATTEMPTS) | counter | `{attempt}` | `kind`, `outcome`; `reason`, `stage` of a failure |
//! | [`reattempt.stopped`](STOPPED) | counter | `{call}` | `reason` |
//! | [`reattempt.hedges`](HEDGES) | counter | `{hedge}` | `result`: `won`, `lost`, `refused` |
//! | [`reattempt.response.failures`](RESPONSES) | counter | `{response}` | `reason` |
//! | [`reattempt.throttle.tokens`](THROTTLE) | gauge | `{token}` | |
//! | [`reattempt.health.changes`](HEALTH) | counter | `{change}` | `change`: `ejected`, `returned`, `opened`, `closed`; `cause` |
//! | [`http.client.request.duration`](HTTP_REQUEST_DURATION) | histogram | `s` | `http.request.method`, `server.address`, `server.port`, `http.response.status_code`, `error.type` |
//! | [`db.client.operation.duration`](DB_OPERATION_DURATION) | histogram | `s` | `db.system.name`, `db.operation.name`, `server.address`, `server.port`, `db.response.status_code`, `error.type` |
//!
//! - An attempt is counted when it ends, once, also one that is dropped. So the sum of
//!   `reattempt.attempts` is what the recovery layers sent, and that of `reattempt.stopped` the
//!   number of calls that came to them: one whose deadline had passed before is in the log alone.
//! - Changes of health are counted of backends and circuit breakers that have [`Metrics`] as an
//!   observer. Which backend it was is in the log.
//! - Label sets are bounded: at most 500 of kind, outcome, reason and stage, 100 hosts and 2,000 of
//!   durations; what is beyond is counted as `UNKNOWN` or `_OTHER`.
//! - A call that succeeds at once adds to two counters and allocates nothing. A duration costs two
//!   readings of the clock and two look-ups more, and what your meter's histogram costs.
//!
//! Metrics go to a [`Meter`]: `OpenTelemetryMeter` (feature `opentelemetry`), `MetricsMeter`
//! (feature `metrics`), or your own. gRPC has the metrics and spans of its own specifications
//! besides: `reattempt_grpc::stats` and `spans`, which last until the end of a stream.

mod attempt;
mod call_span;
mod calls;
mod convention;
mod durations;
mod error_type;
mod instrument;
mod meter;
#[cfg(feature = "metrics")]
mod metrics_facade;
#[cfg(feature = "opentelemetry")]
mod open_telemetry;
mod table;
#[cfg(test)]
mod tests;
mod throttles;

use std::fmt;
use std::sync::Arc;

pub use attempt::{AttemptTelemetry, AttemptTelemetryFuture, AttemptTelemetryLayer};
pub use call_span::{CallSpan, CallSpanFuture, CallSpanLayer};
pub use convention::{Convention, Operation, System};
pub use instrument::{
    ATTEMPTS, DB_OPERATION_DURATION, HEALTH, HEDGES, HTTP_REQUEST_DURATION, INSTRUMENTS,
    Instrument, InstrumentKind, RESPONSES, STOPPED, THROTTLE,
};
pub use meter::{Counter, Gauge, Histogram, Label, LabelValue, Meter};
#[cfg(feature = "metrics")]
pub use metrics_facade::MetricsMeter;
#[cfg(feature = "opentelemetry")]
pub use open_telemetry::OpenTelemetryMeter;

use calls::Calls;
use durations::Durations;

/// Metrics of a client: an observer, and a layer, as shown in the [module](crate::telemetry).
///
/// Clones share their counters.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    meter: Box<dyn Meter>,
    calls: Calls,
    durations: Durations,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("meter", &self.0.meter)
            .finish_non_exhaustive()
    }
}

impl Metrics {
    /// Feeds this meter.
    #[must_use]
    pub fn new(meter: impl Meter + 'static) -> Self {
        Self(Arc::new(Inner {
            calls: Calls::new(&meter),
            durations: Durations::new(),
            meter: Box::new(meter),
        }))
    }

    /// Measures each attempt and opens a span around it. Put it below the recovery layers, with the
    /// classifier that they have. `convention` is the protocol's: `HttpConvention`,
    /// `KvConvention`, `ServiceConvention`, `MongoConvention`.
    #[must_use]
    pub fn attempts<D, C>(&self, convention: D, classifier: C) -> AttemptTelemetryLayer<D, C> {
        AttemptTelemetryLayer::new(self.clone(), convention, classifier)
    }
}
