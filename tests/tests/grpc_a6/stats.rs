//! Statistics and metrics (R72) of a real HTTP/2 connection.

use std::sync::{Arc, Mutex};

use reattempt_grpc::stats::{GrpcMeter, GrpcStats, Instrument, Labels, Options, SentBody};

use super::*;

type Measurement = (Instrument, f64, Option<Code>);

/// Stores all values except durations, which vary.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<Measurement>>>);

impl GrpcMeter for Memory {
    fn add(&self, instrument: Instrument, value: u64, labels: &Labels<'_>) {
        self.record(instrument, value as f64, labels);
    }

    fn record(&self, instrument: Instrument, value: f64, labels: &Labels<'_>) {
        assert_eq!(&**labels.method, "shop.Cart/Add");
        let value = if instrument.unit() == "s" { 0.0 } else { value };
        self.0
            .lock()
            .unwrap()
            .push((instrument, value, labels.status));
    }
}

impl Memory {
    fn recorded(&self, instrument: Instrument) -> Vec<(f64, Option<Code>)> {
        let recorded = self.0.lock().unwrap();
        let of_it = recorded.iter().filter(|recorded| recorded.0 == instrument);
        of_it.map(|(_, value, status)| (*value, *status)).collect()
    }
}

/// A call through a stack with the statistics around hyper's client.
async fn call(server: &Server) -> (GrpcStats, Memory) {
    let memory = Memory::default();
    let options = Options::new().retry_metrics(true);
    let stats = GrpcStats::with_options(memory.clone(), server.uri(), options);
    let http: Client<_, SentBody<ReplayBody<Body>>> = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .retry_canceled_requests(false)
        .build_http();
    let service = ServiceBuilder::new()
        .layer(stats.call_layer())
        .layer(RouteLayer::new(retrying(4, "0.01s")))
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::by_policy(GrpcClassifier::new()).observer(stats.observer()))
        .layer(PreviousAttemptsLayer)
        .layer(stats.attempt_layer())
        .layer(GrpcOutcomeLayer::new())
        .map_response(|answer: Response<Incoming>| {
            answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
        })
        .map_err(BoxError::from)
        .service(http);
    if let Ok(answer) = within(service.oneshot(unary(&server.uri()))).await {
        let _ = within(answer.into_body().collect()).await;
    }
    (stats, memory)
}

/// R72
#[tokio::test]
async fn attempts_statuses_and_sizes_are_those_of_the_wire() {
    let script = Script::new()
        .then(Step::refuse_stream())
        .then(busy())
        .otherwise(Step::messages(["pie", "plums"]));
    let server = start(script).await;
    let (stats, memory) = call(&server).await;
    let refused = Some(Code::Unavailable);
    let ok = Some(Code::Ok);
    let statuses = [(0.0, refused), (0.0, refused), (0.0, ok)];
    assert_eq!(memory.recorded(Instrument::AttemptDuration), statuses);
    assert_eq!(memory.recorded(Instrument::AttemptStarted).len(), 3);
    // The bytes sent by the others depend on when the server reset them.
    assert_eq!(memory.recorded(Instrument::AttemptSent)[2], (6.0, ok));
    assert_eq!(memory.recorded(Instrument::AttemptReceived)[2], (8.0, ok));
    assert_eq!(memory.recorded(Instrument::CallDuration), [(0.0, ok)]);
    assert_eq!(memory.recorded(Instrument::CallRetries), [(1.0, None)]);
    let transparent = memory.recorded(Instrument::CallTransparentRetries);
    assert_eq!(transparent, [(1.0, None)]);
    let statistics = stats.retry_statistics()["shop.Cart/Add"];
    assert_eq!((statistics.attempts(), statistics.failed()), (1, 0));
}

/// R72: also if the stream is cut off after the head.
#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_the_code_of_its_reset() {
    let cut = Step::messages(["pie"]).end_reset(11_u32);
    let server = start(Script::new().then(busy()).otherwise(cut)).await;
    let (stats, memory) = call(&server).await;
    let exhausted = Some(Code::ResourceExhausted);
    assert_eq!(
        memory.recorded(Instrument::CallDuration),
        [(0.0, exhausted)]
    );
    let statistics = stats.retry_statistics()["shop.Cart/Add"];
    assert_eq!((statistics.attempts(), statistics.failed()), (1, 1));
}
