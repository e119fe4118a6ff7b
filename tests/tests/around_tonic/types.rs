//! What users do with the stack's type: move it into tasks, and name it.

use super::connections::refused_port;
use super::server::{Server, Step};
use super::shop::cart_client::CartClient;
use super::stack::channel;
use super::*;
use reattempt::Stage;
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::client::GrpcClient;
use reattempt_http::AnyTransportError;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::util::BoxCloneService;
use tower::{Layer, ServiceBuilder};

fn layer() -> GrpcClientLayer<ServiceConfig> {
    GrpcClientLayer::new(retrying(3))
}

/// With its full type, which the compiler must prove `Send` inside the task. tower's buffer boxes
/// errors.
#[tokio::test]
async fn a_stack_around_boxed_errors_can_be_moved_into_a_task() {
    let server = Server::start([Step::Fail(busy())]).await;
    let buffered = ServiceBuilder::new()
        .buffer(4)
        .service(channel(server.address()));
    let mut client = CartClient::new(layer().layer(buffered));
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
    let (_reserved, address) = refused_port();
    let own = ServiceBuilder::new()
        .map_err(AnyTransportError::new)
        .map_err(Mine)
        .service(channel(address));
    let mut client = CartClient::new(layer().layer(own));
    let (request, watch) = watched(item("pie"));
    let task = tokio::spawn(async move { client.add(request).await });
    let status = within(task).await.expect("no panic").unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    assert_eq!(failure.map(|failure| failure.stage), Some(Stage::Dispatch));
}

type Boxed = BoxCloneService<http::Request<Body>, http::Response<Body>, Status>;

/// An application's state.
struct Shop {
    cart: CartClient<GrpcClient<Channel, ServiceConfig>>,
    boxed: CartClient<Boxed>,
}

#[tokio::test]
async fn a_stack_has_a_name_boxed_or_not() {
    let server = Server::start([Step::Fail(busy())]).await;
    let client = layer().layer(channel(server.address()));
    let boxed = ServiceBuilder::new()
        .layer(BoxCloneService::layer())
        .map_response(|answer: http::Response<_>| answer.map(Body::new))
        .service(client.clone());
    let shop = Shop {
        cart: CartClient::new(client),
        boxed: CartClient::new(boxed),
    };
    let answer = within(shop.cart.clone().add(item("pie"))).await;
    assert_eq!(answer.expect("an answer").get_ref().names, ["pie"]);
    assert_eq!(server.seen().len(), 2);
    let answer = within(shop.boxed.clone().add(item("tart"))).await;
    assert_eq!(answer.expect("an answer").get_ref().names, ["tart"]);
}
