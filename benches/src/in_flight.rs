//! The memory held by a call in flight: a key-value call, and a gRPC call through the documented
//! stack around a transport that has read the request, with one message of 1 KiB, and does not
//! respond.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{Empty, Full};
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer, strategy};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
    PreviousAttemptsLayer,
};
use reattempt_http::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_http::call::{ExtendContextLayer, InlineContextLayer, ReplayCallBodyLayer};
use tower::{BoxError, Service, ServiceBuilder};

use crate::Count;
use crate::typical::{Server, call, hedged, six};

/// The memory held by each of many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The state of the calls.
    pub name: &'static str,
    /// Bytes allocated, including the future and the request with its message.
    pub bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Size of the future alone, in bytes.
    pub future: usize,
}

const MESSAGE: usize = 1024;
/// Fewer than half of the tokens: one failure per call must not drain the bucket.
const CALLS: u64 = 400;

/// The transport: takes the request, reads its body, and either never responds or returns an error
/// at once.
#[derive(Clone, Copy, Debug)]
struct Transport {
    answers: bool,
}

/// An attempt in flight: it holds its request's body.
#[derive(Debug)]
struct Flight<B> {
    body: B,
    answers: bool,
}

impl<B: Body + Unpin> Future for Flight<B> {
    type Output = Result<Response<Empty<Bytes>>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Poll::Ready(Some(_)) = Pin::new(&mut self.body).poll_frame(cx) {}
        if !self.answers {
            return Poll::Pending;
        }
        let answer = Response::builder()
            .header("grpc-status", "14")
            .body(Empty::new());
        Poll::Ready(answer.map_err(Into::into))
    }
}

impl<B: Body + Unpin> Service<Request<B>> for Transport {
    type Response = Response<Empty<Bytes>>;
    type Error = BoxError;
    type Future = Flight<B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Flight {
            body: request.into_body(),
            answers: self.answers,
        }
    }
}

fn request() -> Request<Full<Bytes>> {
    let mut message = vec![0; MESSAGE + 5];
    message[3] = (MESSAGE >> 8) as u8;
    let mut request = Request::new(Full::from(message));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static("http://h/shop.Cart/Add");
    let headers = request.headers_mut();
    headers.insert(
        "content-type",
        http::HeaderValue::from_static("application/grpc"),
    );
    headers.insert("te", http::HeaderValue::from_static("trailers"));
    request
}

/// Starts many calls and leaves them pending.
fn measure<S, R>(held: Count, name: &'static str, mut service: S, request: impl Fn() -> R) -> Kept
where
    S: Service<R>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut begin = || {
        assert!(service.poll_ready(&mut cx).is_ready());
        let mut call = Box::pin(service.call(request()));
        assert!(call.as_mut().poll(&mut cx).is_pending());
        call
    };
    // One-time allocations are made before measuring.
    let first = begin();
    let future = size_of_val(&*first);
    let mut calls = Vec::with_capacity(CALLS as usize);
    let (allocations, bytes) = held(&mut || calls.extend((0..CALLS).map(|_| begin())));
    // What these calls leave would be used by those of the next case.
    std::mem::forget(calls);
    Kept {
        name,
        bytes: bytes / CALLS,
        allocations: allocations / CALLS,
        future,
    }
}

/// This policy for all methods.
fn config(policy: &str) -> ServiceConfig {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],"timeout":"60s",{policy}}}],"retryThrottling":{{"maxTokens":1000,"tokenRatio":1}}}}"#
    );
    ServiceConfig::parse(&text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The same layers with the context inline, as in the preset.
fn inline(held: Count, name: &'static str, policy: &str, answers: bool) -> Kept {
    let hedge = HedgeLayer::by_policy(GrpcClassifier::new()).unclaimed();
    let body = ReplayBodyLayer::new().budget(BufferBudget::new(usize::MAX));
    let service = ServiceBuilder::new()
        .layer(InlineContextLayer::new(config(policy)))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayCallBodyLayer::new(body))
        .layer(RetryLayer::new(GrpcClassifier::new(), strategy::RetryOnce))
        .layer(hedge)
        .layer(ExtendContextLayer)
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .service(Transport { answers });
    measure(held, name, service, request)
}

/// Calls through the documented stack.
fn stacked(held: Count, name: &'static str, policy: &str, answers: bool) -> Kept {
    let config = config(policy);
    let budget = BufferBudget::new(usize::MAX);
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new().budget(budget.clone()))
        .layer(RetryLayer::new(GrpcClassifier::new(), strategy::RetryOnce))
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .service(Transport { answers });
    measure(held, name, service, request)
}

/// All measured cases. `held` counts what is not freed. Needs a runtime with timers.
#[must_use]
pub fn all(held: Count) -> Vec<Kept> {
    const RETRY: &str = r#""retryPolicy":{"maxAttempts":3,"initialBackoff":"30s","maxBackoff":"30s",
        "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}"#;
    const HEDGE: &str = r#""hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"30s"}"#;
    const ALL_AT_ONCE: &str = r#""hedgingPolicy":{"maxAttempts":3}"#;
    vec![
        alone(held, |held| {
            measure(held, "no layers", Transport { answers: false }, request)
        }),
        alone(held, |held| {
            stacked(held, "no policy", r#""waitForReady":false"#, false)
        }),
        alone(held, |held| {
            stacked(held, "retried, attempt out", RETRY, false)
        }),
        alone(held, |held| {
            stacked(held, "retried, in back-off", RETRY, true)
        }),
        alone(held, |held| {
            stacked(held, "hedged, 1 attempt out", HEDGE, false)
        }),
        alone(held, |held| {
            stacked(held, "hedged, 3 attempts out", ALL_AT_ONCE, false)
        }),
        alone(held, |held| {
            inline(held, "inline: no policy", r#""waitForReady":false"#, false)
        }),
        alone(held, |held| inline(held, "inline: retried", RETRY, false)),
        alone(held, |held| {
            inline(held, "inline: in back-off", RETRY, true)
        }),
        alone(held, |held| inline(held, "inline: hedged", HEDGE, false)),
        alone(held, |held| {
            measure(held, "key-value: six layers", six(waiting()), || call(1))
        }),
        alone(held, |held| {
            measure(held, "key-value: hedged", hedged(waiting()), || call(1))
        }),
    ]
}

/// The server of a key-value call that is pending.
fn waiting() -> Server {
    Server::new(0, 1)
}

/// On a thread of its own, which has kept no state of an earlier call.
fn alone(held: Count, measured: fn(Count) -> Kept) -> Kept {
    let runtime = tokio::runtime::Handle::current();
    let thread = std::thread::spawn(move || {
        let _guard = runtime.enter();
        measured(held)
    });
    thread.join().expect("a measured case")
}
