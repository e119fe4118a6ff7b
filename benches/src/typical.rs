//! Calls as a key-value client makes them: a request of 88 bytes with two shared `Bytes`, which
//! works at once, after two failures, or after it was pending. tower's retry with a budget over its
//! timeout is measured beside it with the same requests, and so is the bare service.

use std::future::{self, Future};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use reattempt::backoff::Backoff;
use reattempt::config_poll::StaleConfig;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AttemptDeadlineLayer, Call, CallContext, Classify, ConfigPollLayer, ConfigWaiter,
    DeadlineLayer, Elapsed, Failure, HasCallContext, HedgeLayer, HedgePolicy, Idempotency,
    PushbackLayer, RetryLayer, RouteLayer, RoutePolicy, ServerPushback, Stage, ThrottleLayer,
    TokenBucket, Verdict, reason,
};
use tower::layer::util::Stack;
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use crate::cases::Case;

/// A request of a key-value client.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "it is only carried")]
pub struct Get {
    key: Bytes,
    value: Bytes,
    opaque: u32,
    vbucket: u16,
    opcode: u8,
    cas: u64,
    number: u64,
}

const _: () = assert!(size_of::<Get>() == 88);

/// An error of two words, made without an allocation.
#[derive(Debug)]
struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("busy")
    }
}

impl std::error::Error for Busy {}

impl From<Elapsed> for Busy {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

type Outcome = Result<u64, BoxError>;

/// A server whose attempts are each pending this many times, and fail this many times before one
/// works.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    failures: u64,
    pending: u8,
    /// Attempts so far, of all calls and clones.
    attempts: &'static AtomicU64,
}

impl Server {
    /// A server whose attempts are each pending this many times, after this many failures.
    #[must_use]
    pub fn new(failures: u64, pending: u8) -> Self {
        Self {
            failures,
            pending,
            attempts: Box::leak(Box::default()),
        }
    }
}

/// An attempt.
#[derive(Debug)]
pub struct Answer {
    pending: u8,
    fails: bool,
    number: u64,
}

impl Future for Answer {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        if self.pending > 0 {
            self.pending -= 1;
            return Poll::Pending;
        }
        Poll::Ready(if self.fails {
            // A box of nothing is no allocation.
            Err(Box::new(Busy))
        } else {
            Ok(self.number)
        })
    }
}

/// A request, plain or in a call.
trait HasGet {
    fn get(&self) -> &Get;
}

impl HasGet for Get {
    fn get(&self) -> &Get {
        self
    }
}

impl HasGet for Call<Get> {
    fn get(&self) -> &Get {
        &self.request
    }
}

impl<R: HasGet> Service<R> for Server {
    type Response = u64;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Answer {
        let attempt = self.attempts.load(Relaxed);
        self.attempts.store(attempt + 1, Relaxed);
        Answer {
            pending: self.pending,
            fails: attempt % (self.failures + 1) != self.failures,
            number: black_box(request).get().number,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Classifier;

const BUSY: Failure = Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response);

impl Classify<u64, BoxError> for Classifier {
    fn classify(&self, outcome: Result<&u64, &BoxError>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Retry(BUSY),
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NeverStale;

impl StaleConfig<Call<Get>, u64, BoxError> for NeverStale {
    type Note = ();

    fn note(&self, _: &Call<Get>) {}

    fn check(&self, (): (), _: Result<&u64, &BoxError>) -> Option<ConfigWaiter> {
        None
    }
}

fn no_pushback(_: Result<&u64, &BoxError>) -> Option<ServerPushback> {
    None
}

pub(crate) type Reader = fn(Result<&u64, &BoxError>) -> Option<ServerPushback>;

pub(crate) const LIMIT: Duration = Duration::from_secs(1);

/// Deadline, throttle and retry.
fn three(server: Server) -> impl Service<Call<Get>, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(DeadlineLayer::new(LIMIT))
        .layer(throttle())
        .layer(RetryLayer::new(Classifier, at_once()))
        .service(server)
}

/// The six layers in the documented order, which threads share.
#[must_use]
pub fn six_layers()
-> impl Layer<Server, Service = impl Service<Call<Get>, Response = u64, Error = BoxError>> + Clone {
    ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("bench"))))
        .layer(DeadlineLayer::new(LIMIT))
        .layer(throttle())
        .layer(RetryLayer::new(Classifier, at_once()))
        .layer(reports())
        .into_inner()
}

pub(crate) fn six(server: Server) -> impl Service<Call<Get>, Response = u64, Error = BoxError> {
    six_layers().layer(server)
}

/// The six layers, and a deadline of each attempt.
fn six_limited(server: Server) -> impl Service<Call<Get>, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("bench"))))
        .layer(DeadlineLayer::new(LIMIT))
        .layer(throttle())
        .layer(RetryLayer::new(Classifier, at_once()))
        .layer(AttemptDeadlineLayer::new(LIMIT / 2))
        .layer(reports())
        .service(server)
}

/// The two layers that report what an attempt's server said.
pub(crate) fn reports() -> Stack<ConfigPollLayer<NeverStale>, PushbackLayer<Reader>> {
    Stack::new(
        ConfigPollLayer::new(NeverStale),
        PushbackLayer::new(no_pushback as Reader),
    )
}

pub(crate) fn hedged(server: Server) -> impl Service<Call<Get>, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(HedgeLayer::new(Classifier, HedgePolicy::new(3, LIMIT)))
        .service(server)
}

pub(crate) fn throttle() -> ThrottleLayer {
    // Never below half: two failures and a success of each call leave it nearly full.
    ThrottleLayer::new(Arc::new(
        TokenBucket::new(1000, 3000).expect("numbers that A6 allows"),
    ))
}

pub(crate) fn at_once() -> MaxAttempts {
    MaxAttempts::new(3, Backoff::constant(Duration::ZERO))
}

/// tower's policy: at most three attempts, while the budget lasts.
#[derive(Clone, Debug)]
struct WithBudget {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl Policy<Get, u64, BoxError> for WithBudget {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut Get, result: &mut Outcome) -> Option<Self::Future> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(future::ready(()))
    }

    fn clone_request(&mut self, request: &Get) -> Option<Get> {
        Some(request.clone())
    }
}

/// tower's retry with a budget over its timeout; `two`: below a timeout of the whole call.
fn tower(server: Server, two: bool) -> impl Service<Get, Response = u64, Error = BoxError> {
    let policy = WithBudget {
        // Two retries a call, without an end.
        budget: Arc::new(TpsBudget::new(LIMIT, 1_000_000, 1000.0)),
        left: 2,
    };
    ServiceBuilder::new()
        .option_layer(two.then(|| tower::timeout::TimeoutLayer::new(LIMIT)))
        .retry(policy)
        .timeout(LIMIT)
        .service(server)
}

fn get(number: u64) -> Get {
    Get {
        key: Bytes::from_static(b"airline_10"),
        value: Bytes::from_static(b"some text"),
        opaque: 1,
        vbucket: 2,
        opcode: 0,
        cas: 3,
        number,
    }
}

/// A call of this number.
#[must_use]
pub fn call(number: u64) -> Call<Get> {
    let mut call = Call::new(get(number));
    call.context_mut().set_idempotency(Idempotency::Idempotent);
    call
}

/// Sends calls one after another. Panics if one fails.
pub fn drive<S, R>(mut service: S, calls: u64, request: impl Fn(u64) -> R) -> u64
where
    S: Service<R, Response = u64, Error = BoxError>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut sum = 0_u64;
    for n in 0..calls {
        assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
        let mut future = pin!(service.call(request(n)));
        sum = loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(Ok(answer)) => break sum.wrapping_add(answer),
                Poll::Ready(Err(error)) => panic!("failed: {error}"),
                Poll::Pending => {}
            }
        };
    }
    black_box(sum)
}

/// All cases. A name ends with what the server does: the calls work at once, fail twice, or are
/// pending once.
#[must_use]
pub fn all() -> Vec<Case> {
    let case = |name, run| Case {
        name,
        run,
        future: 0,
    };
    vec![
        case("get-bare", |n| drive(Server::new(0, 0), n, get)),
        case("get-three", |n| drive(three(Server::new(0, 0)), n, call)),
        case("get-six", |n| drive(six(Server::new(0, 0)), n, call)),
        case("get-tower", |n| {
            drive(tower(Server::new(0, 0), false), n, get)
        }),
        case("get-bare, pending", |n| drive(Server::new(0, 1), n, get)),
        case("get-six-limited, pending", |n| {
            drive(six_limited(Server::new(0, 1)), n, call)
        }),
        case("get-tower-two, pending", |n| {
            drive(tower(Server::new(0, 1), true), n, get)
        }),
        case("get-six, fails twice", |n| {
            drive(six(Server::new(2, 0)), n, call)
        }),
        case("get-tower, fails twice", |n| {
            drive(tower(Server::new(2, 0), false), n, get)
        }),
        case("get-hedge", |n| drive(hedged(Server::new(0, 0)), n, call)),
        case("get-hedge, pending", |n| {
            drive(hedged(Server::new(0, 1)), n, call)
        }),
    ]
}
