//! The preset with a circuit breaker, and over backends with health.

use reattempt::admission::Admission;
use reattempt::backends::Backends;
use reattempt::health::{CircuitBreaker, CircuitState, HealthEvent, HealthPolicy};
use reattempt::{CircuitBreakerLayer, Observer};

use super::*;

fn breaker() -> Arc<CircuitBreaker> {
    let now = Instant::now().into_std();
    Arc::new(CircuitBreaker::new(HealthPolicy::standard(), now))
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_unavailable_and_nothing_is_sent() {
    let breaker = breaker();
    let mut script = vec![Status(Code::Unavailable); 5];
    script.push(Late(Code::Ok));
    let wire = Wire::new(&script);
    let layer = GrpcClientLayer::new(retrying(2, "14")).circuit_breaker(Arc::clone(&breaker));
    let client = layer.layer(wire.channel());
    for _ in 0..3 {
        let ended = outcome(client.clone(), Instant::now(), message(5)).await;
        assert_eq!(ended.code, Code::Unavailable);
    }
    // The second attempt of the third call is the sixth.
    assert_eq!(wire.server.times().len(), 5);
    let ended = outcome(client.clone(), Instant::now(), message(5)).await;
    assert_eq!((ended.code, ended.ended_ms), (Code::Unavailable, 0));
    let text = ended.metadata.get(crate::GRPC_MESSAGE).unwrap();
    assert!(text.to_str().unwrap().contains("circuit breaker is open"));
    let reasons: Vec<_> = ended
        .records
        .iter()
        .filter_map(|record| record.failure)
        .collect();
    let names: Vec<_> = reasons
        .iter()
        .map(|failure| failure.reason.name())
        .collect();
    assert_eq!(names, ["CIRCUIT_BREAKER_OPEN"]);
    assert_eq!(wire.server.times().len(), 5);

    let now = Instant::now().into_std();
    assert!(matches!(breaker.state(now), CircuitState::Open(_)));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let ended = outcome(client, Instant::now(), message(5)).await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(
        breaker.state(Instant::now().into_std()),
        CircuitState::Closed
    );
}

/// R16: the tries before it were not sent either.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_and_is_refused_by_a_breaker_was_not_sent() {
    let wire = Wire::new(&[Fault(TransportFault::ConnectFailed)]);
    let layer = GrpcClientLayer::new(retrying(2, "14"))
        .wait_for_ready(waiting())
        .circuit_breaker(breaker());
    let mut request = message(5);
    request.extensions_mut().insert(WaitForReady(true));
    let ended = outcome(layer.layer(wire.channel()), Instant::now(), request).await;
    assert_eq!((ended.code, ended.ended_ms), (Code::Unavailable, 500));
    assert_eq!(wire.server.times().len(), 5);
    let failure = ended.records[0].failure.unwrap();
    assert_eq!(failure.reason.name(), "CIRCUIT_BREAKER_OPEN");
    assert_eq!((failure.stage, failure.safe), (Stage::Dispatch, true));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_down_is_ejected() {
    let down = Wire::new(&[Status(Code::Unavailable)]);
    let up = Wire::new(&[Late(Code::Ok)]);
    let layer = GrpcClientLayer::new(retrying(3, "14"));
    let channels = [("down", down.channel()), ("up", up.channel())];
    let channels =
        channels.map(|(name, channel)| (name, tower::util::BoxCloneService::new(channel)));
    let backends = layer.backends(channels, HealthPolicy::standard());
    let client = layer.layer(backends.clone());
    for _ in 0..50 {
        let ended = outcome(client.clone(), Instant::now(), message(5)).await;
        assert_eq!(ended.code, Code::Ok);
    }
    let (name, status) = &backends.status()[0];
    assert_eq!((name.as_str(), status.is_ejected()), ("down", true));
    assert_eq!(down.server.times().len(), 5);
}

/// The layers below that of the stream's status take the head for a begun response.
#[tokio::test(start_paused = true)]
async fn a_head_alone_is_a_failure_of_its_backend() {
    let wire = Wire::new(&[HeadAlone]);
    let layer = GrpcClientLayer::new(retrying(3, "14"));
    let channel = tower::util::BoxCloneService::new(wire.channel());
    let policy = HealthPolicy::standard().max_ejection_percent(100);
    let backends = layer.backends([("one", channel)], policy);
    let client = layer.layer(backends.clone());
    for _ in 0..5 {
        assert!(!backends.status()[0].1.is_ejected());
        let ended = outcome(client.clone(), Instant::now(), message(5)).await;
        assert_eq!(ended.code, Code::Unknown);
    }
    assert!(backends.status()[0].1.is_ejected());
}

/// Without a recovery layer too, where nothing above judges the head.
#[tokio::test(start_paused = true)]
async fn without_recovery_a_head_alone_counts_for_its_backend() {
    let server = Server::new([HeadAlone]);
    let channel = service_fn(move |request: Request<()>| server.clone().attempt(request));
    let policy = HealthPolicy::standard().max_ejection_percent(100);
    let backends = Backends::new([("one", channel)], policy, GrpcClassifier::new());
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(9)).on_elapsed(AsGrpcStatus))
        .layer(GrpcOutcomeLayer::new())
        .service(backends.clone());
    for _ in 0..5 {
        assert!(!backends.status()[0].1.is_ejected());
        assert!(client.clone().oneshot(Request::new(())).await.is_ok());
    }
    assert!(backends.status()[0].1.is_ejected());
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_gets_a_head_alone_opens_the_circuit_again() {
    let server = Server::new([HeadAlone]);
    let channel = service_fn(move |request: Request<()>| server.clone().attempt(request));
    let (breaker, classifier) = (breaker(), GrpcClassifier::new());
    let circuit = CircuitBreakerLayer::new(Arc::clone(&breaker), classifier);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(classifier, reattempt::strategy::NeverRetry))
        .layer(GrpcOutcomeLayer::new())
        .layer(circuit.on_open(AsGrpcStatus))
        .service(channel);
    let state = || breaker.state(Instant::now().into_std());
    for _ in 0..5 {
        assert_eq!(state(), CircuitState::Closed);
        assert!(client.clone().oneshot(Request::new(())).await.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(state(), CircuitState::HalfOpen);
    assert!(client.clone().oneshot(Request::new(())).await.is_ok());
    assert!(matches!(state(), CircuitState::Open(_)));
}

/// The same of a failure in trailers that is held until its layer knows it.
#[tokio::test(start_paused = true)]
async fn a_status_that_was_held_is_a_failure_of_its_backend() {
    let server = Server::new([Late(Code::Unavailable)]);
    let classifier = GrpcClassifier::new();
    let policy = HealthPolicy::standard().max_ejection_percent(100);
    let channel = service_fn(move |request: Request<()>| server.clone().attempt(request));
    let backends = Backends::new([("one", channel)], policy, classifier);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(classifier, reattempt::strategy::NeverRetry))
        .layer(GrpcOutcomeLayer::new())
        .layer(HoldHeadersLayer::new().methods(|_| true))
        .service(backends.clone());
    for _ in 0..5 {
        assert!(!backends.status()[0].1.is_ejected());
        let answer = client.clone().oneshot(Request::new(())).await.unwrap();
        let code = Code::from_head(answer.status(), answer.headers());
        assert_eq!(code, Some(Code::Unavailable));
    }
    assert!(backends.status()[0].1.is_ejected());
}

/// Its head has arrived when the source of the caller's own stream fails.
#[tokio::test(start_paused = true)]
async fn a_request_that_fails_by_itself_ejects_no_backend() {
    use TransportFault::{Abandoned, ConnectionReset, RequestFailed};

    for (fault, is_ejected) in [
        (RequestFailed, false),
        (Abandoned, false),
        (ConnectionReset, true),
    ] {
        let server = Server::new([Breaks(Some(fault))]);
        let channel = service_fn(move |request: Request<()>| server.clone().attempt(request));
        let policy = HealthPolicy::standard().max_ejection_percent(100);
        let policy = policy.consecutive_failures(1);
        let backends = Backends::new([("one", channel)], policy, GrpcClassifier::new());
        let client = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Duration::from_secs(9)).on_elapsed(AsGrpcStatus))
            .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
            .service(backends.clone());
        let response = client.oneshot(Request::new(())).await.unwrap();
        assert!(response.into_body().collect().await.is_err());
        assert_eq!(backends.status()[0].1.is_ejected(), is_ejected, "{fault:?}");
    }
}

/// Keeps the kinds of attempts, changes of health, and calls that were not admitted.
#[derive(Debug, Default)]
struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn push(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Diary {
    fn attempt_sent(&self, context: &CallContext) {
        self.push(format!("{:?}", context.kind()));
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        if info.stopped() == Some(StopReason::Admission) {
            self.push("refused");
        }
    }

    fn health_changed(&self, event: &HealthEvent) {
        self.push(event.change.name());
    }
}

async fn send(client: impl Client) {
    outcome(client, Instant::now(), message(5)).await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_attempts_health_and_refused_calls() {
    let seen = Arc::new(Diary::default());
    let layer = |config| GrpcClientLayer::new(config).observer(seen.clone());
    let failing = || Wire::new(&[Status(Code::Unavailable)]);

    let once = Wire::new(&[Status(Code::Unavailable), Late(Code::Ok)]);
    send(layer(retrying(2, "14")).layer(once.channel())).await;
    assert_eq!(seen.take(), ["Initial", "Retry"]);
    send(layer(hedging(2, "0.02s", "14")).layer(failing().channel())).await;
    assert_eq!(seen.take(), ["Initial", "Hedge"]);

    let client = layer(retrying(5, "14")).circuit_breaker(breaker());
    send(client.layer(failing().channel())).await;
    assert_eq!(seen.take()[5..], ["opened"]);

    let single = || layer(config(r#""timeout":"5s""#));
    let channel = tower::util::BoxCloneService::new(failing().channel());
    let policy = HealthPolicy::standard().max_ejection_percent(100);
    let backends = single().backends([("one", channel)], policy.consecutive_failures(1));
    send(single().layer(backends)).await;
    assert_eq!(seen.take(), ["Initial", "ejected"]);

    let strict = Admission::default().randomness(Randomness::Fixed(0.0));
    let client = single().admission(Arc::new(strict));
    let client = client.layer(failing().channel());
    for _ in 0..20 {
        send(client.clone()).await;
    }
    let mut refused = seen.take();
    refused.retain(|what| what != "Initial");
    assert_eq!(refused, ["refused"; 15]);
}
