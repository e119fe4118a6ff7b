//! What users do with the stack's type: move it into tasks, and name it.

use super::connections::nobody;
use super::server::{Server, Step};
use super::shop::cart_client::CartClient;
use super::stack::channel;
use super::*;
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, HedgeLayer, RetryLayer, Stage};
use reattempt_grpc::{
    AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, TonicStatusLayer, WaitForReadyLayer,
};
use reattempt_http::AnyTransportError;
use reattempt_http::body::ReplayBodyLayer;
use tonic::body::Body;
use tower::ServiceBuilder;
use tower::util::BoxCloneService;

/// The layers whose types name the channel's error, around `$channel`.
macro_rules! stack {
    ($channel:expr) => {
        ServiceBuilder::new()
            .layer(TonicStatusLayer)
            .layer(DeadlineLayer::new(PATIENCE).on_elapsed(AsGrpcStatus))
            .layer(ReplayBodyLayer::new())
            .layer(RetryLayer::new(
                GrpcClassifier::new(),
                MaxAttempts::standard(),
            ))
            .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
            .layer(WaitForReadyLayer::new())
            .layer(GrpcOutcomeLayer::new())
            .map_request(|request: http::Request<_>| request.map(Body::new))
            .service($channel)
    };
}

/// With its full type, which the compiler must prove `Send` inside the task.
#[tokio::test]
async fn a_stack_can_be_moved_into_a_task() {
    let server = Server::start([Step::Fail(busy())]).await;
    let mut client = CartClient::new(stack!(channel(server.address())));
    let task = tokio::spawn(async move { client.add(item("pie")).await });
    let answer = within(task).await.expect("no panic").expect("an answer");
    assert_eq!(answer.get_ref().names, ["pie"]);
}

/// tower's buffer boxes errors.
#[tokio::test]
async fn a_stack_around_boxed_errors_can_be_moved_into_a_task() {
    let server = Server::start([Step::Fail(busy())]).await;
    let buffered = ServiceBuilder::new()
        .buffer(4)
        .service(channel(server.address()));
    let mut client = CartClient::new(stack!(buffered));
    let task = tokio::spawn(async move { client.add(item("pie")).await });
    let answer = within(task).await.expect("no panic").expect("an answer");
    assert_eq!(answer.get_ref().names, ["pie"]);
}

#[derive(Debug, thiserror::Error)]
#[error("a custom transport error")]
struct Mine(#[source] tonic::transport::Error);

/// With `BoxError::from` in place of `AnyTransportError::new` this does not compile.
#[tokio::test]
async fn a_stack_around_errors_of_ones_own_can_be_moved_into_a_task() {
    let (_reserved, address) = nobody();
    let own = ServiceBuilder::new()
        .map_err(AnyTransportError::new)
        .map_err(Mine)
        .service(channel(address));
    let mut client = CartClient::new(stack!(own));
    let (request, watch) = watched(item("pie"));
    let task = tokio::spawn(async move { client.add(request).await });
    let status = within(task).await.expect("no panic").unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    assert_eq!(failure.map(|failure| failure.stage), Some(Stage::Dispatch));
}

type Named = BoxCloneService<http::Request<Body>, http::Response<Body>, Status>;

/// An application's state.
struct Shop {
    cart: CartClient<Named>,
}

#[tokio::test]
async fn a_boxed_stack_has_a_name() {
    let server = Server::start([Step::Fail(busy())]).await;
    let stack = ServiceBuilder::new()
        .map_response(|answer: http::Response<_>| answer.map(Body::new))
        .service(stack!(channel(server.address())));
    let shop = Shop {
        cart: CartClient::new(BoxCloneService::new(stack)),
    };
    let answer = within(shop.cart.clone().add(item("pie"))).await;
    assert_eq!(answer.expect("an answer").get_ref().names, ["pie"]);
    assert_eq!(server.seen().len(), 2);
}
