//! gRPC A6 on the wire: the documented stack around hyper-util's HTTP/2 client. Here is what the
//! program's cases cannot show: hostile servers, and layers that the program does not use.
//!
//! Rule numbers are those of docs/conformance/grpc.md.

mod credentials;
mod hold_headers;
mod hostile;
mod raw_server;
mod stats;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Randomness;
use reattempt::{
    CallContext, DeadlineLayer, HasCallContext, HedgeLayer, HedgePolicy, PushbackLayer, RetryInfo,
    RetryInfoHandle, RetryLayer, RetryThrottle, RouteLayer,
};
use reattempt_clients::grpc::{Messages, frame_message};
use reattempt_grpc::service_config::{Options, ServiceConfig};
use reattempt_grpc::{
    AsGrpcStatus, CallCredentialsLayer, Code, ControlPlaneFailure, GRPC_STATUS, GrpcClassifier,
    GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer, HoldHeadersLayer, LimitedRequestBody,
    MessageLimitLayer, PreviousAttemptsLayer, WaitForReadyLayer,
};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
use reattempt_testbed::grpc::{Script, SeenCall, Server, Step};
use reattempt_tests::{PATIENCE, within};
use tower::{BoxError, ServiceBuilder, ServiceExt};

type Body = UnsyncBoxBody<Bytes, BoxError>;

const UNAVAILABLE: i32 = 14;

/// A config for every method, with a bucket of ten tokens; each delay is exactly half of its upper
/// bound.
fn config(members: &str) -> ServiceConfig {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],{members}}}],"retryThrottling":{{"maxTokens":10,"tokenRatio":0.5}}}}"#
    );
    let options = Options::new().randomness(Randomness::Fixed(0.5));
    ServiceConfig::parse_with(&text, &options).expect("a service config")
}

/// Retries UNAVAILABLE after this back-off.
fn retrying(attempts: u32, backoff: &str) -> ServiceConfig {
    config(&retry_policy(attempts, backoff))
}

fn retry_policy(attempts: u32, backoff: &str) -> String {
    format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"{backoff}","maxBackoff":"{backoff}",
        "backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}"#
    )
}

/// Tokens in the bucket, in thousandths.
fn tokens(config: &ServiceConfig) -> Option<u64> {
    config.throttle().and_then(|bucket| bucket.milli_tokens())
}

/// A channel: the documented stack around one HTTP/2 client.
struct Channel {
    config: ServiceConfig,
    http: Client<HttpConnector, ReplayBody<LimitedRequestBody<Body>>>,
    credentials: fn(attempt: u32) -> Made,
}

/// The metadata for one attempt, or the reason why there is none.
type Made = Result<HeaderMap, ControlPlaneFailure>;

/// The result of a call.
struct Ended {
    code: Code,
    messages: Vec<Bytes>,
    head: HeaderMap,
    info: RetryInfo,
}

impl Channel {
    fn new(config: &ServiceConfig) -> Self {
        Self {
            config: config.clone(),
            http: Client::builder(TokioExecutor::new())
                .http2_only(true)
                .retry_canceled_requests(false)
                .build_http(),
            credentials: |_| Ok(HeaderMap::new()),
        }
    }

    /// Sends the call and returns the response head.
    async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = BoxError> + use<>>, BoxError>
    {
        let credentials = self.credentials;
        let credentials = move |call: &http::request::Parts| {
            let attempt = call.extensions.context().map_or(0, CallContext::attempt);
            std::future::ready(credentials(attempt))
        };
        let service = ServiceBuilder::new()
            .layer(RouteLayer::new(self.config.clone()))
            .layer(GrpcTimeoutLayer)
            .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(MessageLimitLayer::new())
            .layer(ReplayBodyLayer::new())
            .layer(RetryLayer::by_policy(GrpcClassifier::new()))
            .layer(HedgeLayer::new(
                GrpcClassifier::new(),
                HedgePolicy::new(1, Duration::ZERO),
            ))
            .layer(WaitForReadyLayer::new())
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            .layer(GrpcOutcomeLayer::new())
            .layer(CallCredentialsLayer::new(credentials))
            .layer(HoldHeadersLayer::new().at_most(PATIENCE))
            .map_response(|answer: Response<Incoming>| {
                answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
            })
            .map_err(BoxError::from)
            .service(self.http.clone());
        within(service.oneshot(request)).await
    }

    /// Sends the call and reads the whole response.
    async fn call(&self, request: Request<Body>) -> Ended {
        let (request, watch) = watched(request);
        let answer = self.send(request).await.expect("an answer");
        ended(answer, &watch).await
    }
}

fn watched(mut request: Request<Body>) -> (Request<Body>, RetryInfoHandle) {
    let watch = RetryInfo::track(&mut request);
    (request, watch)
}

async fn ended<B>(answer: Response<B>, watch: &RetryInfoHandle) -> Ended
where
    B: http_body::Body<Data = Bytes, Error = BoxError>,
{
    let (head, body) = answer.into_parts();
    let collected = within(body.collect()).await.expect("a whole stream");
    let status = |headers: &HeaderMap| headers.get(GRPC_STATUS).map(Code::from_header);
    let code = status(&head.headers)
        .or_else(|| collected.trailers().and_then(status))
        .expect("a status");
    let mut messages = Messages::default();
    messages.push(&collected.to_bytes());
    Ended {
        code,
        messages: std::iter::from_fn(|| messages.next_message().expect("messages")).collect(),
        head: head.headers,
        info: watch.info(),
    }
}

/// A unary call with one message.
fn unary(uri: &str) -> Request<Body> {
    Request::post(format!("{uri}/shop.Cart/Add"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(one_message())
        .expect("a request")
}

fn one_message() -> Body {
    let body = Full::new(frame_message(b"apples"));
    body.map_err(|never| match never {}).boxed_unsync()
}

async fn start(script: impl Into<Script>) -> Server {
    Server::start(script).await.expect("a server")
}

/// `grpc-previous-rpc-attempts` of each call that the server saw.
fn previous(seen: &[SeenCall]) -> Vec<Option<u32>> {
    seen.iter().map(SeenCall::previous_attempts).collect()
}

/// UNAVAILABLE, Trailers-Only.
fn busy() -> Step {
    Step::trailers_only(UNAVAILABLE, "busy")
}
