//! Streams that begin and then fail: what health, circuit breakers and admission learn from it.

use std::sync::Arc;

use super::server::{Server, Step};
use super::shop::cart_client::CartClient;
use super::stack::{Stack, channel};
use super::*;
use reattempt::admission::Admission;
use reattempt::backends::Backends;
use reattempt::health::{CircuitBreaker, CircuitState, HealthPolicy};
use reattempt_grpc::GrpcClientLayer;
use tower::Layer;

/// What is ejected or open stays so, however slow the machine is.
fn policy() -> HealthPolicy {
    let hour = Duration::from_secs(3600);
    let policy = HealthPolicy::standard().failure_percentage(None);
    policy.base_ejection_time(hour).max_ejection_time(hour)
}

/// Reads a stream of two items to its end.
async fn list(client: &mut CartClient<impl Stack>) -> Result<u32, Status> {
    let mut stream = within(client.list(items("pie", 2))).await?.into_inner();
    let mut got = 0;
    while within(stream.message()).await?.is_some() {
        got += 1;
    }
    Ok(got)
}

fn layer(config: &ServiceConfig) -> GrpcClientLayer<ServiceConfig> {
    GrpcClientLayer::new(config.clone())
}

fn failing(status: &Status, times: usize) -> Vec<Step> {
    vec![Step::FailAfter(1, status.clone()); times]
}

fn ejected<S: Send + 'static, C, P>(backends: &Backends<S, C, P>) -> usize {
    let all = backends.status();
    assert!(all.iter().all(|(_, status)| status.in_flight == 0));
    all.iter().filter(|(_, status)| status.is_ejected()).count()
}

/// What is ejected after this many streams that end like this.
async fn ejected_after(streams: usize, status: &Status, config: &ServiceConfig) -> usize {
    let server = Server::start(failing(status, streams)).await;
    let all = [("one", channel(server.address()))];
    let layer = layer(config);
    let backends = layer.backends(all, policy().max_ejection_percent(100));
    let mut client = CartClient::new(layer.layer(backends.clone()));
    for _ in 0..streams {
        let ended = list(&mut client).await.unwrap_err();
        assert_eq!(ended.code(), status.code());
    }
    ejected(&backends)
}

#[tokio::test]
async fn a_backend_whose_streams_fail_is_ejected() {
    let no_throttle = ServiceConfig::parse("{}").expect("a service config");
    for config in [retrying(3), no_throttle] {
        assert_eq!(ejected_after(4, &busy(), &config).await, 0);
        assert_eq!(ejected_after(5, &busy(), &config).await, 1);
    }
}

#[tokio::test]
async fn a_status_that_answers_the_request_ejects_none() {
    let missing = Status::not_found("no such list");
    assert_eq!(ejected_after(10, &missing, &retrying(3)).await, 0);
}

#[tokio::test]
async fn streams_that_fail_open_a_circuit() {
    let server = Server::start(failing(&busy(), 100)).await;
    #[allow(clippy::disallowed_methods, reason = "the breaker's clock starts here")]
    let now = tokio::time::Instant::now().into_std();
    let breaker = Arc::new(CircuitBreaker::new(policy(), now));
    let layer = layer(&retrying(3)).circuit_breaker(Arc::clone(&breaker));
    let mut client = CartClient::new(layer.layer(channel(server.address())));
    for _ in 0..10 {
        assert!(list(&mut client).await.is_err());
    }
    assert!(matches!(breaker.state(now), CircuitState::Open(_)));
    assert_eq!(server.seen().len(), 5, "the others were never sent");
}

#[tokio::test]
async fn a_server_whose_streams_end_overloaded_gets_fewer_calls() {
    let full = Status::resource_exhausted("too many streams");
    let server = Server::start(failing(&full, 1000)).await;
    let layer = layer(&no_policy()).admission(Arc::new(Admission::default()));
    let mut client = CartClient::new(layer.layer(channel(server.address())));
    for _ in 0..60 {
        assert!(list(&mut client).await.is_err());
    }
    let sent = server.seen().len();
    assert!(sent < 30, "{sent} of 60 were sent");
}
