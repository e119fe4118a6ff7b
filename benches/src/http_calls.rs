//! Calls as an HTTP client makes them: a GET and a PUT with eight headers, which work at once,
//! through the documented single layers and through the preset. tower's retry with a budget over
//! its timeout is measured beside them with the same requests, and so is the bare service.

use std::future::{self, Future};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Body;
use http_body_util::Full;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    DeadlineLayer, PushbackLayer, RetryLayer, RouteLayer, RoutePolicy, ThrottleLayer, TokenBucket,
};
use reattempt_http::body::ReplayBodyLayer;
use reattempt_http::{HttpClassifier, HttpClientLayer, HttpPushback};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, Service, ServiceBuilder};

use crate::cases::Case;

pub(crate) type Plain = Full<Bytes>;
pub(crate) type Answer = Response<Plain>;

/// A server that reads the whole request and responds at once. Its future is small, as those of
/// clients are: hyper-util's is boxed, tonic's a channel's receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server;

/// An attempt, whose request is on its way.
#[derive(Debug)]
pub(crate) struct Attempt {
    arrived: bool,
}

impl Future for Attempt {
    type Output = Result<Answer, BoxError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if !black_box(self.arrived) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(Response::new(Full::from("stored"))))
    }
}

impl<B: Body + Unpin> Service<Request<B>> for Server {
    type Response = Answer;
    type Error = BoxError;
    type Future = Attempt;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Attempt {
        let mut request = black_box(request);
        let cx = &mut Context::from_waker(Waker::noop());
        let mut arrived = true;
        while arrived && !request.body().is_end_stream() {
            let frame = Pin::new(request.body_mut()).poll_frame(cx);
            arrived = black_box(frame.is_ready());
        }
        Attempt { arrived }
    }
}

const LIMIT: Duration = Duration::from_secs(30);

/// The documented single layers.
fn six() -> impl Service<Request<Plain>, Response = Answer, Error = BoxError> {
    let bucket = TokenBucket::new(100, 100).expect("numbers that A6 allows");
    ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("bench"))))
        .layer(DeadlineLayer::new(LIMIT))
        .layer(ThrottleLayer::new(Arc::new(bucket)))
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service(Server)
}

fn preset() -> impl Service<Request<Plain>, Response: Done, Error = impl std::fmt::Debug> {
    ServiceBuilder::new()
        .layer(HttpClientLayer::standard())
        .service(Server)
}

/// tower's policy: at most three attempts, while the budget lasts.
#[derive(Clone, Debug)]
struct WithBudget {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl Policy<Request<Plain>, Answer, BoxError> for WithBudget {
    type Future = future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Plain>,
        result: &mut Result<Answer, BoxError>,
    ) -> Option<Self::Future> {
        let worked = |answer: &mut Answer| !answer.status().is_server_error();
        if result.as_mut().is_ok_and(worked) {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(future::ready(()))
    }

    fn clone_request(&mut self, request: &Request<Plain>) -> Option<Request<Plain>> {
        Some(request.clone())
    }
}

fn tower() -> impl Service<Request<Plain>, Response = Answer, Error = BoxError> {
    ServiceBuilder::new()
        .retry(WithBudget {
            budget: Arc::default(),
            left: 2,
        })
        .timeout(LIMIT)
        .service(Server)
}

/// A response whose status is read.
trait Done {
    fn done(self) -> bool;
}

impl<B> Done for Response<B> {
    fn done(self) -> bool {
        self.status().is_success()
    }
}

/// Eight headers as clients send them: three of a name that is not standard, three whose value is
/// not static.
pub(crate) fn request(method: Method, body: &'static str) -> Request<Plain> {
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = http::Uri::from_static("http://shop.example/carts/7");
    let shared = |text: &str| HeaderValue::from_str(text).expect("a valid value");
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("bench/1"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::AUTHORIZATION, shared("Bearer 0123456789"));
    headers.insert("x-api-version", HeaderValue::from_static("3"));
    headers.insert(
        "x-request-id",
        shared("8e03978e-40d5-43e8-bc93-6894a57f9324"),
    );
    headers.insert(
        "traceparent",
        shared("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    );
    request
}

/// Sends copies of a request one after another. Panics if one does not work at once.
fn drive<S>(mut service: S, calls: u64, request: &Request<Plain>) -> u64
where
    S: Service<Request<Plain>, Response: Done, Error: std::fmt::Debug>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut worked = 0;
    for _ in 0..calls {
        assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
        match pin!(service.call(request.clone())).poll(&mut cx) {
            Poll::Ready(answer) => worked += u64::from(answer.expect("an answer").done()),
            Poll::Pending => panic!("pending"),
        }
    }
    assert_eq!(worked, calls);
    worked
}

fn get(
    service: impl Service<Request<Plain>, Response: Done, Error: std::fmt::Debug>,
    n: u64,
) -> u64 {
    drive(service, n, &request(Method::GET, ""))
}

fn put(
    service: impl Service<Request<Plain>, Response: Done, Error: std::fmt::Debug>,
    n: u64,
) -> u64 {
    drive(service, n, &request(Method::PUT, "one loaf"))
}

const fn future_of<S: Service<Request<Plain>>>(_: fn() -> S) -> usize {
    size_of::<S::Future>()
}

macro_rules! cases {
    ($($get:literal, $put:literal => $service:expr;)*) => {
        /// All cases: a GET, and a PUT with a body of one frame.
        #[must_use]
        pub fn all() -> Vec<Case> {
            vec![$(
                Case { name: $get, run: |n| get($service(), n), future: future_of($service) },
                Case { name: $put, run: |n| put($service(), n), future: future_of($service) },
            )*]
        }
    };
}

cases! {
    "http-get, bare", "http-put, bare" => || Server;
    "http-get, tower", "http-put, tower" => tower;
    "http-get, six", "http-put, six" => six;
    "http-get, preset", "http-put, preset" => preset;
}
