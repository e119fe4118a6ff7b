//! All measured cases, by name.

use std::sync::Arc;
use std::time::Duration;

use reattempt::ConfigWaiter;
use reattempt::config_poll::StaleConfig;
use reattempt::policy::ExtraLoad;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    Call, CallContext, CallLayer, Classify, ConfigPollLayer, DeadlineLayer, Failure, HedgeLayer,
    HedgePolicy, PushbackLayer, RetryLayer, RouteLayer, RoutePolicy, ServerPushback, Stage,
    ThrottleLayer, TokenBucket, UncallLayer, Verdict, reason,
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::{Bare, drive, peer};

/// Any response is a success, any error may be retried.
#[derive(Clone, Copy, Debug)]
pub struct AnyAnswer;

impl Classify<u64, BoxError> for AnyAnswer {
    fn classify(&self, outcome: Result<&u64, &BoxError>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight)),
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
struct NeverStale;

impl<Req> StaleConfig<Req, u64, BoxError> for NeverStale {
    type Note = ();

    fn note(&self, _: &Req) {}

    fn check(&self, (): (), _: Result<&u64, &BoxError>) -> Option<ConfigWaiter> {
        None
    }
}

fn no_pushback(_: Result<&u64, &BoxError>) -> Option<ServerPushback> {
    None
}

type Reader = fn(Result<&u64, &BoxError>) -> Option<ServerPushback>;

fn throttle() -> ThrottleLayer {
    ThrottleLayer::new(Arc::new(
        TokenBucket::new(10, 100).expect("numbers that A6 allows"),
    ))
}

fn learned() -> HedgePolicy {
    let delay = ExtraLoad::percent(2.0).expect("a valid share");
    HedgePolicy::with_delay(3, Arc::new(delay))
}

fn route() -> RouteLayer<Arc<RoutePolicy>> {
    RouteLayer::new(Arc::new(RoutePolicy::new("bench")))
}

const LIMIT: Duration = Duration::from_secs(1);

/// A case: a name and a function that sends calls through it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name on the command line and in the table.
    pub name: &'static str,
    /// Sends this many calls through a new service.
    pub run: fn(u64) -> u64,
    /// The size of its future, in bytes.
    pub future: usize,
}

pub(crate) fn future_of<R, S: Service<R>>(_: fn() -> S, _: impl Fn(u64) -> R) -> usize {
    size_of::<S::Future>()
}

macro_rules! cases {
    ($($name:literal => $request:expr, $build:expr;)*) => {
        /// Every case, in the order of the table; the first is the bare service.
        #[must_use]
        pub fn all() -> Vec<Case> {
            vec![$(Case {
                name: $name,
                run: |calls| drive(&mut $build, calls, $request),
                future: future_of(|| $build, $request),
            }),*]
        }
    };
}

cases! {
    "bare" => |n: u64| n, Bare;
    "bare-call" => Call::new, Bare;
    "call" => |n: u64| n, ServiceBuilder::new().layer(CallLayer::new()).layer(UncallLayer::new()).service(Bare);
    "route" => Call::new, ServiceBuilder::new().layer(route()).service(Bare);
    "throttle" => Call::new, ServiceBuilder::new().layer(throttle()).service(Bare);
    "deadline" => Call::new, ServiceBuilder::new().layer(DeadlineLayer::new(LIMIT)).service(Bare);
    "retry" => Call::new,
        ServiceBuilder::new().layer(RetryLayer::new(AnyAnswer, MaxAttempts::standard())).service(Bare);
    "hedge" => Call::new,
        ServiceBuilder::new().layer(HedgeLayer::new(AnyAnswer, HedgePolicy::new(3, LIMIT))).service(Bare);
    "hedge-learned" => Call::new,
        ServiceBuilder::new().layer(HedgeLayer::new(AnyAnswer, learned())).service(Bare);
    "pushback" => Call::new, ServiceBuilder::new().layer(PushbackLayer::new(no_pushback as Reader)).service(Bare);
    "config-poll" => Call::new, ServiceBuilder::new().layer(ConfigPollLayer::new(NeverStale)).service(Bare);
    "retry+throttle+deadline" => Call::new, ServiceBuilder::new()
        .layer(DeadlineLayer::new(LIMIT))
        .layer(throttle())
        .layer(RetryLayer::new(AnyAnswer, MaxAttempts::standard()))
        .service(Bare);
    "stack" => Call::new, ServiceBuilder::new()
        .layer(route())
        .layer(DeadlineLayer::new(LIMIT))
        .layer(throttle())
        .layer(RetryLayer::new(AnyAnswer, MaxAttempts::standard()))
        .layer(PushbackLayer::new(no_pushback as Reader))
        .layer(ConfigPollLayer::new(NeverStale))
        .service(Bare);
    "tower" => |n: u64| n, peer::retry_budget_timeout();
}
