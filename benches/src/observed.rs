//! Calls that are counted: the observer of the metrics, with a meter of plain atomics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use reattempt::strategy::MaxAttempts;
use reattempt::telemetry::{Counter, Gauge, Histogram, Instrument, Label, Meter, Metrics};
use reattempt::{Call, RetryLayer};
use tower::{BoxError, Service, ServiceBuilder};

use crate::cases::{AnyAnswer, Case, future_of};
use crate::{Bare, drive};

#[derive(Debug)]
struct Atomics;

struct Nothing;

impl Gauge for Nothing {
    fn set(&self, _: f64) {}
}

impl Histogram for Nothing {
    fn record(&self, _: f64) {}
}

impl Meter for Atomics {
    fn counter(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Counter> {
        Arc::new(AtomicU64::new(0))
    }

    fn gauge(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Gauge> {
        Arc::new(Nothing)
    }

    fn histogram(&self, _: &'static Instrument, _: &[Label]) -> Arc<dyn Histogram> {
        Arc::new(Nothing)
    }
}

fn service() -> impl Service<Call<u64>, Response = u64, Error = BoxError> {
    let metrics = Arc::new(Metrics::new(Atomics));
    let retry = RetryLayer::new(AnyAnswer, MaxAttempts::standard()).observer(metrics);
    ServiceBuilder::new().layer(retry).service(Bare)
}

/// A retry layer that counts its calls.
#[must_use]
pub fn counted() -> Case {
    Case {
        name: "retry+metrics",
        run: |calls| drive(&mut service(), calls, Call::new),
        future: future_of(service, Call::new),
    }
}
