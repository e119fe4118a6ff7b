//! The rules of A6 through the whole stack, on paused time. Rule numbers are those of
//! docs/conformance/grpc.md.

mod budget;
#[cfg(feature = "tonic")]
mod client;
mod control_plane;
mod hedging;
mod hold_headers;
mod message_limit;
mod metadata;
mod outcome;
mod pushback;
mod retry;
mod spans;
mod stats;
mod throttle;
mod wait_for_ready;

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use reattempt::backoff::{Backoff, Randomness};
use reattempt::strategy::MaxAttempts;
use reattempt::throttle::Settled;
use reattempt::{
    CallContext, DeadlineLayer, Failure, HasCallContext, HedgeLayer, OnDeadline, PushbackLayer,
    ReadPushback, RetryInfo, RetryLayer, RetryThrottle, RoundRobin, Route, RouteLayer,
    ServerPushback, Stage, StopReason,
};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
use reattempt_http::{TransportError, TransportFault};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::service_config::{LiveServiceConfig, Options, ServiceConfig};
use crate::*;

type Body = UnsyncBoxBody<Bytes, Broken>;
type RequestBody = ReplayBody<LimitedRequestBody<Full<Bytes>>>;

/// A transport error with this fault.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0:?}")]
struct Broken(TransportFault);

impl TransportError for Broken {
    fn fault(&self) -> TransportFault {
        self.0
    }
}

/// The server's behaviour for one attempt.
#[derive(Clone)]
enum Step {
    /// A Trailers-Only response.
    Status(Code),
    /// The same with pushback.
    Pushback(Code, &'static str),
    /// Headers at once, the status in real trailers.
    Late(Code),
    /// The same with pushback.
    LatePushback(Code, &'static str),
    /// The same, with the pushback in the headers.
    EarlyPushback(Code, &'static str),
    /// As `Late`, with the trailers after this many milliseconds.
    Later(u64, Code),
    /// Headers, a message, and the status in real trailers.
    Message(Code),
    /// A stream without messages that fails, or ends without a status.
    Breaks(Option<TransportFault>),
    /// A head without a status that ends the stream.
    HeadAlone,
    /// No response.
    Hangs,
    /// Headers, then nothing.
    HangsInBody,
    Fault(TransportFault),
    /// The balancer below drops the call.
    Drops(Code),
    /// This step, after a delay.
    After(u64, Box<Step>),
}
use Step::*;

/// One attempt as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    at_ms: u128,
    previous: Option<String>,
    timeout: Option<String>,
    headers: HeaderMap,
}

#[derive(Clone)]
struct Server {
    script: Arc<Vec<Step>>,
    next: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    began: Instant,
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// This body, followed by trailers.
fn ends<B>(body: B, after_ms: u64, code: Code, pushback: Option<&'static str>) -> Body
where
    B: http_body::Body<Data = Bytes, Error = Broken> + Send + 'static,
{
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, code.number().into());
    if let Some(value) = pushback {
        trailers.insert(RETRY_PUSHBACK_MS, value.parse().unwrap());
    }
    body.with_trailers(async move {
        if after_ms > 0 {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
        }
        Some(Ok(trailers))
    })
    .boxed_unsync()
}

fn answer(step: Step) -> Result<Response<Body>, Broken> {
    let mut response = Response::new(empty());
    let headers = response.headers_mut();
    match step {
        Status(code) | Drops(code) => drop(headers.insert(GRPC_STATUS, code.number().into())),
        Pushback(code, value) => {
            headers.insert(GRPC_STATUS, code.number().into());
            headers.insert(RETRY_PUSHBACK_MS, value.parse().unwrap());
        }
        Late(code) => *response.body_mut() = ends(empty(), 0, code, None),
        LatePushback(code, value) => *response.body_mut() = ends(empty(), 0, code, Some(value)),
        EarlyPushback(code, value) => {
            headers.insert(RETRY_PUSHBACK_MS, value.parse().unwrap());
            *response.body_mut() = ends(empty(), 0, code, None);
        }
        Later(ms, code) => *response.body_mut() = ends(empty(), ms, code, None),
        Message(code) => {
            let message = Full::from("message").map_err(|never| match never {});
            *response.body_mut() = ends(message, 0, code, None);
        }
        HeadAlone => {}
        Breaks(None) => {
            let end = std::future::ready(None);
            *response.body_mut() = empty().with_trailers(end).boxed_unsync();
        }
        Breaks(Some(fault)) => {
            let end = std::future::ready(Some(Err(Broken(fault))));
            *response.body_mut() = empty().with_trailers(end).boxed_unsync();
        }
        HangsInBody => {
            let never = std::future::pending();
            *response.body_mut() = empty().with_trailers(never).boxed_unsync();
        }
        Fault(fault) => return Err(Broken(fault)),
        Hangs | After(..) => unreachable!("handled before"),
    }
    Ok(response)
}

impl Server {
    fn new(script: impl Into<Vec<Step>>) -> Self {
        Self {
            script: Arc::new(script.into()),
            next: Arc::default(),
            seen: Arc::default(),
            began: Instant::now(),
        }
    }

    async fn attempt<B>(self, request: Request<B>) -> Result<Response<Body>, Broken> {
        let text = |name| {
            let value = request.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.seen.lock().unwrap().push(Seen {
            at_ms: self.began.elapsed().as_millis(),
            previous: text(PREVIOUS_ATTEMPTS),
            timeout: text(GRPC_TIMEOUT),
            headers: request.headers().clone(),
        });
        let mut step = self.script.get(at).or(self.script.last()).unwrap().clone();
        while let After(ms, inner) = step {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            step = *inner;
        }
        if let (Drops(_), Some(context)) = (&step, request.context()) {
            context.reporter().forbid();
        }
        if matches!(step, Hangs) {
            std::future::pending::<()>().await;
        }
        answer(step)
    }

    fn service(
        &self,
    ) -> impl Service<Request<RequestBody>, Response = Response<Body>, Error = Broken, Future: Send>
    + Clone
    + use<> {
        let server = self.clone();
        service_fn(move |request| server.clone().attempt(request))
    }

    /// This of each attempt.
    fn each<T>(&self, of: impl FnMut(&Seen) -> T) -> Vec<T> {
        self.seen.lock().unwrap().iter().map(of).collect()
    }

    fn times(&self) -> Vec<u128> {
        self.each(|seen| seen.at_ms)
    }

    fn previous(&self) -> Vec<Option<String>> {
        self.each(|seen| seen.previous.clone())
    }
}

/// A config with one retry policy for all methods and a bucket; each delay is exactly half of its
/// upper bound.
fn retrying(attempts: u32, codes: &str) -> ServiceConfig {
    config(&format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[{codes}]}}"#
    ))
}

fn hedging(attempts: u32, delay: &str, codes: &str) -> ServiceConfig {
    config(&format!(
        r#""hedgingPolicy":{{"maxAttempts":{attempts},"hedgingDelay":"{delay}","nonFatalStatusCodes":[{codes}]}}"#
    ))
}

fn config(members: &str) -> ServiceConfig {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],{members}}}],"retryThrottling":{{"maxTokens":10,"tokenRatio":0.5}}}}"#
    );
    let options = Options::new().randomness(Randomness::Fixed(0.5));
    ServiceConfig::parse_with(&text, &options).unwrap()
}

/// Tokens in the bucket, in thousandths.
fn tokens(config: &ServiceConfig) -> Option<u64> {
    config.throttle().unwrap().milli_tokens()
}

/// Retries that a policy of the config replaces.
fn standard() -> RetryLayer<GrpcClassifier> {
    RetryLayer::new(GrpcClassifier::new(), MaxAttempts::standard())
}

struct Ended {
    code: Code,
    info: RetryInfo,
    head: HeaderMap,
    data: Bytes,
    at_ms: u128,
}

/// One call through the documented stack, whose response is read to the end.
async fn call<R>(config: &R, server: &Server, request: Request<Full<Bytes>>) -> Ended
where
    R: Route<Request<Full<Bytes>>> + Clone,
{
    call_through(config, server.began, server.service(), request).await
}

/// The same with several servers; each attempt takes one.
async fn call_one_of(
    config: &ServiceConfig,
    servers: &[Server],
    request: Request<Full<Bytes>>,
) -> Ended {
    let names = (0..servers.len()).map(|n| n.to_string());
    let all = names.zip(servers.iter().map(Server::service));
    let began = servers[0].began;
    call_through(config, began, RoundRobin::new(all).unwrap(), request).await
}

async fn call_through<R, S>(
    config: &R,
    began: Instant,
    transport: S,
    request: Request<Full<Bytes>>,
) -> Ended
where
    R: Route<Request<Full<Bytes>>> + Clone,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Broken> + Clone,
{
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(MessageLimitLayer::new())
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .layer(HedgeLayer::new(
            GrpcClassifier::new(),
            reattempt::HedgePolicy::new(1, Duration::ZERO),
        ))
        .layer(WaitForReadyLayer::new().backoff(Backoff::constant(Duration::from_millis(100))))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
        .layer(HoldHeadersLayer::new())
        .service(transport);
    let mut request = request;
    let watch = RetryInfo::track(&mut request);
    let outcome = service.oneshot(request).await;
    let (code, head, data) = match outcome {
        Err(error) => {
            let code = crate::classify::failure_of_fault(error.0).0;
            (code, HeaderMap::new(), Bytes::new())
        }
        Ok(response) => {
            let (head, body) = response.into_parts();
            let in_head = head.headers.get(GRPC_STATUS).map(Code::from_header);
            let end = body.collect().await.ok();
            let trailers = end.as_ref().and_then(|end| end.trailers().cloned());
            let data = end.map(|end| end.to_bytes()).unwrap_or_default();
            let in_trailers = trailers.and_then(|all| all.get(GRPC_STATUS).map(Code::from_header));
            let code = in_head.or(in_trailers).unwrap_or(Code::Internal);
            (code, head.headers, data)
        }
    };
    Ended {
        code,
        info: watch.info(),
        head,
        data,
        at_ms: began.elapsed().as_millis(),
    }
}

fn request() -> Request<Full<Bytes>> {
    Request::post("http://h/shop.Cart/Add")
        .body(Full::from("frame"))
        .unwrap()
}
