//! The client: the documented stack around a tonic channel.

use std::net::SocketAddr;

use bytes::Bytes;
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_http::body::{BufferBudget, ReplayBodyLayer};
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
    with(GrpcClientLayer::new(config.clone()), channel)
}

fn with<S>(layer: GrpcClientLayer<ServiceConfig>, channel: S) -> CartClient<impl Stack>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send,
{
    let stack = ServiceBuilder::new()
        .layer(ExposeInfoLayer)
        .layer(layer)
        .map_err(AnyTransportError::new)
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
    let layer = GrpcClientLayer::new(config.clone()).bodies(bodies);
    with(layer, channel(server.address()))
}
