//! The documented stack around tonic, and one call through it.

use http::uri::PathAndQuery;
use prost::Message;
use reattempt::RetryInfo;
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_http::AnyTransportError;
use reattempt_tests::within;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder};

#[derive(Clone)]
pub(crate) struct Stack {
    grpc: Grpc<BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>>,
}

impl Stack {
    /// Around a channel, or around what chooses between several.
    pub(crate) fn new<S>(config: ServiceConfig, channel: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<BoxError> + 'static,
        S::Future: Send,
    {
        let stack = ServiceBuilder::new()
            .layer(BoxCloneSyncService::layer())
            .map_response(|answer: http::Response<_>| answer.map(Body::new))
            .layer(GrpcClientLayer::new(config))
            .map_err(AnyTransportError::new)
            .service(channel);
        Self {
            grpc: Grpc::new(stack),
        }
    }

    pub(crate) async fn call<M, A>(
        &self,
        method: &'static str,
        message: M,
    ) -> (Result<A, Status>, RetryInfo)
    where
        M: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(message);
        let watch = RetryInfo::track(request.extensions_mut());
        let answer = within(unary(self.grpc.clone(), method, request)).await;
        (answer, watch.info())
    }
}

pub(crate) async fn unary<S, M, A>(
    mut grpc: Grpc<S>,
    method: &'static str,
    request: Request<M>,
) -> Result<A, Status>
where
    S: tonic::client::GrpcService<Body>,
    S::ResponseBody: http_body::Body<Data = bytes::Bytes, Error: Into<BoxError>> + Send + 'static,
    M: Message + 'static,
    A: Message + Default + 'static,
{
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::from_error(error.into()))?;
    let codec = ProstCodec::default();
    let answer = grpc.unary(request, PathAndQuery::from_static(method), codec);
    Ok(answer.await?.into_inner())
}
