//! What callers use: backends in turn, tower's balancer, and backends with health.

use std::future::{Future, Ready, ready};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reattempt::backends::{Backends, RoundRobin};
use reattempt::backoff::{Backoff, Randomness};
use reattempt::health::HealthPolicy;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AttemptDeadlineLayer, Call, CallContext, Elapsed, Failure, HedgeLayer, HedgePolicy, RetryLayer,
    Stage, Verdict, reason,
};
use tower::balance::p2c::Balance;
use tower::buffer::Buffer;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwmaDiscover, PendingRequestsDiscover};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::BoxCloneService;
use tower::util::rng::HasherRng;
use tower::{BoxError, ServiceBuilder, service_fn};

use super::world::Server;

/// A client of the three backends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    InTurn,
    InTurnRetry,
    Pending,
    PendingRetry,
    PeakEwma,
    PeakEwmaRetry,
    Health,
    HealthRetry,
    HealthHedge,
}

pub(crate) type Client = BoxCloneService<Call<()>, (), BoxError>;

const ATTEMPT: Duration = Duration::from_millis(100);
const HEDGE: Duration = Duration::from_millis(50);

impl Side {
    pub(crate) const ALL: [Self; 9] = [
        Self::InTurn,
        Self::InTurnRetry,
        Self::Pending,
        Self::PendingRetry,
        Self::PeakEwma,
        Self::PeakEwmaRetry,
        Self::Health,
        Self::HealthRetry,
        Self::HealthHedge,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InTurn => "in turn, no retry",
            Self::InTurnRetry => "in turn, retry",
            Self::Pending => "tower pending, no retry",
            Self::PendingRetry => "tower pending, retry",
            Self::PeakEwma => "tower EWMA, no retry",
            Self::PeakEwmaRetry => "tower EWMA, retry",
            Self::Health => "health, no retry",
            Self::HealthRetry => "health, retry",
            Self::HealthHedge => "health, hedge",
        }
    }

    pub(crate) fn client(self, servers: [Server; 3]) -> Client {
        let transports = servers.map(transport);
        let named = || ["0", "1", "2"].into_iter().zip(transports.clone());
        let in_turn = || RoundRobin::new(named()).expect("three");
        let healthy = || Backends::new(named(), health(), verdict as Classifier);
        match self {
            Self::InTurn => attempts(in_turn()),
            Self::InTurnRetry => Client::new(retrying().service(attempts(in_turn()))),
            Self::Pending => towers(pending(transports)),
            Self::PendingRetry => towers_retry(pending(transports)),
            Self::PeakEwma => towers(peak_ewma(transports)),
            Self::PeakEwmaRetry => towers_retry(peak_ewma(transports)),
            Self::Health => attempts(healthy()),
            Self::HealthRetry => Client::new(retrying().service(attempts(healthy()))),
            Self::HealthHedge => {
                let policy = HedgePolicy::new(3, HEDGE);
                let hedge = HedgeLayer::new(verdict as Classifier, policy);
                Client::new(ServiceBuilder::new().layer(hedge).service(healthy()))
            }
        }
    }
}

fn transport(server: Server) -> Client {
    Client::new(service_fn(move |_: Call<()>| {
        let answer = server.clone().answer();
        async { answer.await.map_err(BoxError::from) }
    }))
}

type Classifier = fn(Result<&(), &BoxError>, &CallContext) -> Verdict;

fn verdict(outcome: Result<&(), &BoxError>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(()) => Verdict::Success,
        Err(error) if error.is::<Elapsed>() => {
            Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight))
        }
        Err(_) => Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::Response)),
    }
}

/// Each run draws the same numbers.
fn health() -> HealthPolicy {
    HealthPolicy::standard().randomness(Randomness::seeded(1))
}

/// The same of tower's balancer.
fn draws() -> HasherRng<BuildHasherDefault<DefaultHasher>> {
    HasherRng::with_hasher(BuildHasherDefault::default())
}

/// The timeout of an attempt.
fn attempts<S>(backends: S) -> Client
where
    S: tower::Service<Call<()>, Response = (), Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    let limit = AttemptDeadlineLayer::new(ATTEMPT);
    Client::new(ServiceBuilder::new().layer(limit).service(backends))
}

fn retrying()
-> ServiceBuilder<tower::layer::util::Stack<RetryLayer<Classifier>, tower::layer::util::Identity>> {
    let backoff = Backoff::constant(Duration::from_millis(1));
    let retry = RetryLayer::new(verdict as Classifier, MaxAttempts::new(3, backoff));
    ServiceBuilder::new().layer(retry)
}

type Answer = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
type Balancing = Buffer<Call<()>, Answer>;

fn boxed(future: impl Future<Output = Result<(), BoxError>> + Send + 'static) -> Answer {
    Box::pin(future)
}

/// By requests in flight.
fn pending(transports: [Client; 3]) -> Balancing {
    let list = ServiceList::new::<Call<()>>(transports);
    let load = PendingRequestsDiscover::new(list, CompleteOnResponse::default());
    let balance = Balance::from_rng(load, draws());
    Buffer::new(
        ServiceBuilder::new().map_future(boxed).service(balance),
        1024,
    )
}

/// By latency and requests in flight, with the figures of tower's documentation.
fn peak_ewma(transports: [Client; 3]) -> Balancing {
    let list = ServiceList::new::<Call<()>>(transports);
    let (usual, decay) = (Duration::from_millis(5), Duration::from_secs(1));
    let load = PeakEwmaDiscover::new(list, usual, decay, CompleteOnResponse::default());
    let balance = Balance::from_rng(load, draws());
    Buffer::new(
        ServiceBuilder::new().map_future(boxed).service(balance),
        1024,
    )
}

/// tower's timeout around its balancer.
fn towers(balance: Balancing) -> Client {
    Client::new(ServiceBuilder::new().timeout(ATTEMPT).service(balance))
}

/// tower's retry with a budget above both: a fifth of the calls and ten a second.
fn towers_retry(balance: Balancing) -> Client {
    let policy = Budgeted {
        budget: Arc::default(),
        left: 2,
    };
    Client::new(
        ServiceBuilder::new()
            .retry(policy)
            .timeout(ATTEMPT)
            .service(balance),
    )
}

#[derive(Clone, Debug)]
struct Budgeted {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl Policy<Call<()>, (), BoxError> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Call<()>, outcome: &mut Result<(), BoxError>) -> Option<Ready<()>> {
        if outcome.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, call: &Call<()>) -> Option<Call<()>> {
        Some(call.clone())
    }
}
