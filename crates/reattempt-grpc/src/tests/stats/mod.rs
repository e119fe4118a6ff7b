//! Statistics and metrics (R72), on paused time.

mod attempts;
mod instruments;
mod panics;
mod retry_metrics;
mod retry_statistics;

use std::collections::BTreeMap;

use tower::util::BoxCloneSyncService;

use super::*;
use crate::stats::{GrpcMeter, GrpcStats, Instrument, Labels, Options as StatsOptions, SentBody};

/// One value that a meter received: instrument, method and status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measurement {
    instrument: Instrument,
    value: f64,
    method: String,
    status: Option<Code>,
}

/// A meter that stores its values.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<Measurement>>>);

impl GrpcMeter for Memory {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        self.record(instrument, value as f64, labels);
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        assert_eq!(&**labels.target, TARGET);
        self.0.lock().unwrap().push(Measurement {
            instrument,
            value,
            method: labels.method.to_string(),
            status: labels.status,
        });
    }
}

const TARGET: &str = "dns:///shop.example.com:443";

/// The statistics of one stack, and the values its meter received.
pub(super) struct Measured {
    pub(super) stats: GrpcStats,
    memory: Memory,
}

impl Measured {
    pub(super) fn new() -> Self {
        Self::with(StatsOptions::new().retry_metrics(true))
    }

    fn with(options: StatsOptions) -> Self {
        let memory = Memory::default();
        Self {
            stats: GrpcStats::with_options(memory.clone(), TARGET, options),
            memory,
        }
    }

    /// All values, in the order in which they were received.
    #[cfg(feature = "tonic")]
    pub(super) fn all(&self) -> Vec<Measurement> {
        self.memory.0.lock().unwrap().clone()
    }

    /// The values of this instrument in order, each with its status if it has one.
    fn recorded(&self, instrument: Instrument) -> Vec<(f64, Option<Code>)> {
        let recorded = self.memory.0.lock().unwrap();
        let of_it = recorded
            .iter()
            .filter(|recorded| recorded.instrument == instrument);
        of_it
            .map(|recorded| (recorded.value, recorded.status))
            .collect()
    }

    fn values(&self, instrument: Instrument) -> Vec<f64> {
        let recorded = self.recorded(instrument);
        recorded.into_iter().map(|(value, _)| value).collect()
    }

    /// The retry attempts of the test's method, and how many failed.
    pub(super) fn retries(&self) -> (u64, u64) {
        let statistics = self.stats.retry_statistics()["shop.Cart/Add"];
        (statistics.attempts(), statistics.failed())
    }

    fn stack(&self, config: &ServiceConfig, server: &Server) -> Stack {
        self.around(config, {
            let server = server.clone();
            move |request| server.clone().attempt(request)
        })
    }

    /// The documented stack with all parts of the statistics.
    fn around<F, A>(&self, config: &ServiceConfig, channel: F) -> Stack
    where
        F: Fn(Request<SentBody<ReplayBody<Full<Bytes>>>>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<Response<Body>, Broken>> + Send + 'static,
    {
        let errors = ErrorCodes::new()
            .call(ByTransportError)
            .body(ByTransportError);
        let service = ServiceBuilder::new()
            .layer(self.stats.call_layer().errors(errors))
            .layer(RouteLayer::new(config.clone()))
            .layer(GrpcTimeoutLayer)
            .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(ReplayBodyLayer::new())
            .layer(standard().observer(self.stats.observer()))
            .layer(HedgeLayer::by_policy(GrpcClassifier::new()).observer(self.stats.observer()))
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            .layer(self.stats.attempt_layer().errors(errors))
            .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
            .service_fn(channel);
        let boxed = ServiceBuilder::new()
            .map_response(|response: Response<_>| response.map(BodyExt::boxed_unsync))
            .service(service);
        BoxCloneSyncService::new(boxed)
    }

    /// One call, whose response is read to the end.
    async fn call(&self, config: &ServiceConfig, server: &Server) {
        read(self.stack(config, server).oneshot(request()).await).await;
    }
}

type Stack = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Broken>;

async fn read(answer: Result<Response<Body>, Broken>) {
    if let Ok(response) = answer {
        let _ = response.into_body().collect().await;
    }
}

/// One retry policy for all methods, no bucket, and a limit that allows all its attempts.
fn unthrottled(policy: &str) -> ServiceConfig {
    let text = format!(r#"{{"methodConfig":[{{"name":[{{}}],{policy}}}]}}"#);
    let options = Options::new()
        .randomness(Randomness::Fixed(0.5))
        .max_attempts_limit(2000);
    ServiceConfig::parse_with(&text, &options).unwrap()
}

fn many_retries(attempts: u32) -> ServiceConfig {
    unthrottled(&format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"0.1s","maxBackoff":"0.1s",
        "backoffMultiplier":1,"retryableStatusCodes":[14]}}"#
    ))
}

fn after(ms: u64, step: Step) -> Step {
    After(ms, Box::new(step))
}
