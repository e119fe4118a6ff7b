//! Statistics and metrics of a gRPC client: A6's own statistics, and the metrics of A66 and A96.
//!
//! Create one [`GrpcStats`] per server. It has three parts, each of which sees something else:
//!
//! | part | position | provides |
//! | --- | --- | --- |
//! | [`GrpcStats::call_layer`] | outermost | `grpc.client.call.*`; the call's method, for the other two |
//! | [`GrpcStats::observer`] | the recovery layers' `observer` | retries, hedges, transparent retries: [`RetryStatistics`] and A96 |
//! | [`GrpcStats::attempt_layer`] | below the recovery layers | `grpc.client.attempt.*`; the delay between attempts |
//!
//! | [`Instrument`] | | unit | labels besides `grpc.method` and `grpc.target` |
//! | --- | --- | --- | --- |
//! | `grpc.client.attempt.started` | counter | `{attempt}` | |
//! | `grpc.client.attempt.duration` | histogram | `s` | `grpc.status` |
//! | `grpc.client.attempt.sent_total_compressed_message_size` | histogram | `By` | `grpc.status` |
//! | `grpc.client.attempt.rcvd_total_compressed_message_size` | histogram | `By` | `grpc.status` |
//! | `grpc.client.call.duration` | histogram | `s` | `grpc.status` |
//! | `grpc.client.call.retries`, opt-in | histogram | `{retry}` | |
//! | `grpc.client.call.transparent_retries`, opt-in | histogram | `{transparent_retry}` | |
//! | `grpc.client.call.hedges`, opt-in | histogram | `{hedge}` | |
//! | `grpc.client.call.retry_delay`, opt-in | histogram | `s` | |
//!
//! - Calls and attempts end with their status: in the head, in the trailers, or in an error that
//!   [`ErrorCodes`](crate::ErrorCodes) maps. One dropped before that ends as CANCELLED; an attempt
//!   whose deadline has passed by then as DEADLINE_EXCEEDED.
//! - Sizes are those of the messages as sent, compressed if they are, without the five-byte prefix
//!   of each. A request counts as far as the transport has read it, whether it arrived or not.
//! - A call that waits for a connection or a backend
//!   ([`WaitForReadyLayer`](crate::WaitForReadyLayer)) starts an attempt here with each try,
//!   although all of them are one attempt of its [`RetryInfo`](reattempt::RetryInfo).
//! - Retries, hedges and transparent retries are reported at the end of a call, and only if there
//!   were any. The retry delay is the time after the first attempt with no attempt active, up to
//!   the last attempt, or to the end of a wait that was cut off.
//! - Methods are recorded by name up to a bound, and only those you select: see [`Options`].
//!
//! Metrics go to a [`GrpcMeter`]: `OpenTelemetryMeter` (feature `opentelemetry`), `MetricsMeter`
//! (feature `metrics`), your own, `()` for none, or a pair of them. For spans see
//! [`spans`](crate::spans).
//!
//! [`GrpcClientLayer::stats`](crate::GrpcClientLayer::stats) places all three (feature `tonic`):
//!
#![cfg_attr(feature = "tonic", doc = "```")]
#![cfg_attr(not(feature = "tonic"), doc = "```ignore")]
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Full;
//! use reattempt_grpc::GrpcClientLayer;
//! use reattempt_grpc::service_config::ServiceConfig;
//! use reattempt_grpc::stats::{GrpcMeter, GrpcStats, Instrument, Labels, Options};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use http::Response;
//! # use http_body_util::Empty;
//!
//! /// Prints the values. Use an `OpenTelemetryMeter` or a `MetricsMeter` instead.
//! #[derive(Debug)]
//! struct Print;
//!
//! impl GrpcMeter for Print {
//!     fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
//!         println!("{} {} +{value} {}", labels.method, instrument.name(), instrument.unit());
//!     }
//!
//!     fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
//!         let (name, unit) = (instrument.name(), instrument.unit());
//!         println!("{} {name} {value} {unit} {:?}", labels.method, labels.status);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! # let config = ServiceConfig::parse(r#"{"methodConfig": [{"name": [{}], "retryPolicy": {
//! #     "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
//! #     "backoffMultiplier": 2, "retryableStatusCodes": [14]}}]}"#)?;
//! # let channel = tower::service_fn(|request: Request<tonic::body::Body>| async move {
//! #     let again = request.headers().contains_key("grpc-previous-rpc-attempts");
//! #     let status = if again { "0" } else { "14" };
//! #     let response = Response::builder().header("grpc-status", status);
//! #     Ok::<_, BoxError>(response.body(Empty::<Bytes>::new())?)
//! # });
//! let options = Options::new().retry_metrics(true);
//! let stats = GrpcStats::with_options(Print, "dns:///shop.example.com:443", options);
//! let layer = GrpcClientLayer::new(config).stats(&stats);
//! let client = ServiceBuilder::new().layer(layer).service(channel);
//! client.oneshot(Request::post("http://h/shop.Cart/Add").body(Full::<Bytes>::from("frame"))?).await?;
//!
//! let add = stats.retry_statistics()["shop.Cart/Add"];
//! assert_eq!((add.attempts(), add.failed()), (1, 0));
//! assert_eq!(add.histogram().next(), Some((1, 1)));
//! # Ok(()) }
//! ```

mod attempt;
mod call;
mod instrument;
mod message_sizes;
mod meter;
mod methods;
#[cfg(feature = "metrics")]
mod metrics_facade;
mod observer;
#[cfg(feature = "opentelemetry")]
mod open_telemetry;
mod options;
mod progress;
mod retry_statistics;
mod sent_body;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use reattempt::{Observer, StackCheck};

use crate::Code;

pub use attempt::{AttemptStats, AttemptStatsBody, AttemptStatsFuture, AttemptStatsLayer};
pub use call::{CallStats, CallStatsBody, CallStatsFuture, CallStatsLayer};
pub use instrument::{Instrument, InstrumentKind};
pub use meter::{GrpcMeter, Labels};
#[cfg(feature = "metrics")]
pub use metrics_facade::MetricsMeter;
#[cfg(feature = "opentelemetry")]
pub use open_telemetry::OpenTelemetryMeter;
pub use options::Options;
pub use retry_statistics::RetryStatistics;
pub use sent_body::SentBody;

use methods::{Method, Methods};

/// Statistics and metrics of the calls to one server: two layers and an observer that share them,
/// as shown in the [module](crate::stats).
///
/// Clones share their counters. A stack takes only one; for several meters give it a pair of them.
#[derive(Clone, Debug)]
pub struct GrpcStats(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    meter: Box<dyn GrpcMeter>,
    target: Arc<str>,
    methods: Methods,
    retry_metrics: bool,
    no_call_layer: StackCheck,
}

impl Inner {
    fn labels<'a>(&'a self, method: &'a Method, status: Option<Code>) -> Labels<'a> {
        Labels {
            method: &method.name,
            target: &self.target,
            status,
        }
    }

    fn add(&self, instrument: Instrument, value: u64, method: &Method) {
        let labels = self.labels(method, None);
        metered(|| self.meter.add(instrument, value, &labels));
    }

    fn record(&self, instrument: Instrument, value: f64, method: &Method, status: Option<Code>) {
        let labels = self.labels(method, status);
        metered(|| self.meter.record(instrument, value, &labels));
    }
}

/// Runs code of a meter, maybe in the drop of a call. A panic of it during another one would abort
/// the process: it is lost.
fn metered(code: impl FnOnce()) {
    if std::thread::panicking() {
        let _lost = catch_unwind(AssertUnwindSafe(code));
    } else {
        code();
    }
}

impl GrpcStats {
    /// Feeds this meter; `target` is the server's address as a URI, `dns:///shop.example.com:443`
    /// (A66, `grpc.target`).
    #[must_use]
    pub fn new(meter: impl GrpcMeter + 'static, target: impl Into<Arc<str>>) -> Self {
        Self::with_options(meter, target, Options::new())
    }

    /// The same with [`Options`].
    #[must_use]
    pub fn with_options(
        meter: impl GrpcMeter + 'static,
        target: impl Into<Arc<str>>,
        options: Options,
    ) -> Self {
        Self(Arc::new(Inner {
            meter: Box::new(meter),
            target: target.into(),
            methods: Methods::new(options.most_methods, options.methods),
            retry_metrics: options.retry_metrics,
            no_call_layer: StackCheck::default(),
        }))
    }

    /// Measures whole calls, from here to their status. Place it outermost.
    #[must_use]
    pub fn call_layer(&self) -> CallStatsLayer {
        CallStatsLayer::new(self.clone())
    }

    /// Measures each attempt, from here to its status. Place it below the recovery layers. It
    /// changes the request type: below it the body is a [`SentBody`].
    #[must_use]
    pub fn attempt_layer(&self) -> AttemptStatsLayer {
        AttemptStatsLayer::new(self.clone())
    }

    /// Counts the actions of the recovery layers: add it as an `observer` of each.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// A6's statistics of every method seen so far, keyed as `shop.Cart/Add`; methods not recorded
    /// by name share `other`. Each number is exact, but they are not one snapshot.
    #[must_use]
    pub fn retry_statistics(&self) -> BTreeMap<Arc<str>, RetryStatistics> {
        self.0.methods.statistics()
    }
}
