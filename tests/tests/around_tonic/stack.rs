//! The client: the documented stack around a tonic channel.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use reattempt::{
    DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer, ThrottleLayer, TokenBucket,
};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
    PreviousAttemptsLayer, TonicStatusLayer, WaitForReadyLayer,
};
use reattempt_http::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_http::{AnyTransportError, ExposeInfoLayer};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::transport::{Channel, Endpoint};
use tower::{BoxError, Service, ServiceBuilder};

use super::server::Server;
use super::shop::cart_client::CartClient;

/// The requirements of a generated client on its channel.
pub(crate) trait Stack:
    GrpcService<
        Body,
        ResponseBody: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
        Error: Into<BoxError> + Send,
        Future: Send,
    > + Clone
    + Send
    + 'static
{
}

impl<T> Stack for T where
    T: GrpcService<
            Body,
            ResponseBody: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send>
                              + Send
                              + 'static,
            Error: Into<BoxError> + Send,
            Future: Send,
        > + Clone
        + Send
        + 'static
{
}

/// The whole stack around a channel, or around a balancer over several.
pub(crate) fn around<S>(config: &ServiceConfig, channel: S) -> CartClient<impl Stack>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send,
{
    with(config, ReplayBodyLayer::new(), channel)
}

/// The same with this buffering of bodies.
fn with<S>(config: &ServiceConfig, bodies: ReplayBodyLayer, channel: S) -> CartClient<impl Stack>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send,
{
    let bucket = TokenBucket::new(10, 100).expect("numbers that A6 allows");
    let stack = ServiceBuilder::new()
        .layer(ExposeInfoLayer)
        .layer(TonicStatusLayer)
        .layer(RouteLayer::new(config.clone()))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(bodies)
        .layer(ThrottleLayer::new(Arc::new(bucket)))
        .layer(RetryLayer::by_policy(GrpcClassifier::new()))
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(WaitForReadyLayer::new())
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .map_err(AnyTransportError::new)
        .map_request(|request: http::Request<_>| request.map(Body::new))
        .service(channel);
    CartClient::new(stack)
}

/// A channel that connects on first use.
pub(crate) fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect_lazy()
}

pub(crate) fn client(config: &ServiceConfig, server: &Server) -> CartClient<impl Stack> {
    around(config, channel(server.address()))
}

/// Buffers requests within this budget.
pub(crate) fn holding(
    config: &ServiceConfig,
    server: &Server,
    budget: &BufferBudget,
) -> CartClient<impl Stack> {
    let bodies = ReplayBodyLayer::new().budget(budget.clone());
    with(config, bodies, channel(server.address()))
}
