//! tonic's client uses the whole stack as its channel, unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body_util::{BodyExt, Empty};
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, PushbackLayer, RetryInfo, RetryLayer, RouteLayer};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, Code, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
    PreviousAttemptsLayer,
};
use reattempt_http::ExposeInfoLayer;
use reattempt_http::body::{DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use tower::{BoxError, ServiceBuilder};

/// Messages as plain bytes.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A channel to a server that is unavailable twice and then echoes; it never responds to the method
/// `Hang`.
async fn serve(
    calls: Arc<AtomicU32>,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, BoxError> {
    if request.uri().path().ends_with("/Hang") {
        std::future::pending::<()>().await;
    }
    let echo = request.into_body().collect().await?.to_bytes();
    let mut response = http::Response::new(Body::empty());
    response
        .headers_mut()
        .insert("content-type", "application/grpc".parse()?);
    if calls.fetch_add(1, Ordering::Relaxed) < 2 {
        response.headers_mut().insert("grpc-status", "14".parse()?);
        return Ok(response);
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse()?);
    let body = http_body_util::Full::new(echo);
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
    *response.body_mut() = Body::new(body);
    Ok(response)
}

fn stack(
    config: ServiceConfig,
    calls: Arc<AtomicU32>,
) -> impl GrpcService<
    Body,
    ResponseBody = impl http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
> {
    ServiceBuilder::new()
        .layer(ExposeInfoLayer)
        .layer(RouteLayer::new(config))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(
            GrpcClassifier::new(),
            MaxAttempts::standard(),
        ))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(
            GrpcOutcomeLayer::new().body_error(|status: &Status| Code::from(status.code() as i32)),
        )
        .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
        .service_fn(move |request| serve(Arc::clone(&calls), request))
}

fn config(method: &str) -> ServiceConfig {
    ServiceConfig::parse(&format!(
        r#"{{"methodConfig":[{{"name":[{{"service":"t.Echo"}}],{method}}}]}}"#
    ))
    .unwrap()
}

const RETRY: &str = r#""retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s","maxBackoff":"1s",
    "backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}"#;

#[tokio::test(start_paused = true)]
async fn a_unary_call_through_tonic_is_retried_and_tells_its_story() {
    let mut client = Grpc::new(stack(config(RETRY), Arc::default()));
    client.ready().await.map_err(Into::into).unwrap();
    let request = Request::new(Bytes::from("hello"));
    let path = http::uri::PathAndQuery::from_static("/t.Echo/Say");
    let answer = client.unary(request, path, Raw).await.unwrap();
    assert_eq!(answer.get_ref(), "hello");
    assert_eq!(
        answer.metadata().get("grpc-previous-rpc-attempts").unwrap(),
        "2"
    );
    assert_eq!(
        answer.extensions().get::<RetryInfo>().unwrap().attempts(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_deadline_exceeded_for_tonic_too() {
    let mut client = Grpc::new(stack(config(r#""timeout":"5s""#), Arc::default()));
    client.ready().await.map_err(Into::into).unwrap();
    let began = tokio::time::Instant::now();
    let mut request = Request::new(Bytes::from("hello"));
    request.set_timeout(Duration::from_secs(1));
    let path = http::uri::PathAndQuery::from_static("/t.Echo/Hang");
    let status = client.unary(request, path, Raw).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    assert!(
        status.message().contains("ambiguous timeout"),
        "{}",
        status.message()
    );
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[test]
fn bodies_and_layers_can_move_between_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_unpin<T: Unpin>() {}
    is_send_and_sync::<ReplayBody<Body>>();
    is_send_and_sync::<ReplayBodyLayer>();
    is_send_and_sync::<ServiceConfig>();
    is_unpin::<ReplayBody<Body>>();
    is_send_and_sync::<reattempt_http::body::DeadlineBody<Empty<Bytes>, AsGrpcStatus>>();
    is_send_and_sync::<reattempt_grpc::GrpcOutcomeBody<Empty<Bytes>>>();
}
