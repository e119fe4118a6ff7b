//! Tables of policies that are swapped during calls.

use std::sync::Arc;

use http::Request;
use reattempt::test_util::ms;
use reattempt::{Call, HedgePolicy, OnDeadline, Recovery, Route, RoutePolicy, Routes};
use reattempt_grpc::service_config::{LiveServiceConfig, Options};
use reattempt_http::{HttpPolicies, LiveHttpPolicies};

use crate::carrier::Payload;
use crate::scenario::{CLASSES, HedgePlan, PolicyPlan, RecoveryPlan, Source, Table};
use crate::throttle::Witness;
use crate::world::World;

impl HedgePlan {
    pub(crate) fn make(&self) -> HedgePolicy {
        let policy = HedgePolicy::new(self.max, ms(self.delay)).on_deadline(self.on_deadline);
        if self.only_idempotent {
            policy
        } else {
            policy.hedge_non_idempotent()
        }
    }
}

impl PolicyPlan {
    pub(crate) fn make(&self, world: &Arc<World>, throttles: &[Arc<Witness>]) -> Arc<RoutePolicy> {
        let mut policy = RoutePolicy::new("random").with_recovery(match &self.recovery {
            RecoveryPlan::Default => Recovery::Default,
            RecoveryPlan::None => Recovery::None,
            RecoveryPlan::Retry(strategy) => Recovery::Retry(strategy.make(world)),
            RecoveryPlan::Hedge(hedge) => Recovery::Hedge(Arc::new(hedge.make())),
        });
        if let Some(throttle) = self.throttle {
            policy = policy.with_throttle(throttles[throttle].clone());
        }
        if let Some(limit) = self.call_limit {
            policy = policy.with_timeout(ms(limit));
        }
        if let Some(limit) = self.attempt_limit {
            policy = policy.with_attempt_timeout(ms(limit));
        }
        Arc::new(policy)
    }
}

/// The policies in force.
#[derive(Clone)]
pub(crate) enum Router {
    Own(Routes<[Option<Arc<RoutePolicy>>; CLASSES]>),
    Http(LiveHttpPolicies),
    Grpc(LiveServiceConfig),
}

fn own(
    table: &Table,
    world: &Arc<World>,
    throttles: &[Arc<Witness>],
) -> [Option<Arc<RoutePolicy>>; CLASSES] {
    let make = |plan: &PolicyPlan| plan.make(world, throttles);
    std::array::from_fn(|class| table[class].as_ref().map(make))
}

impl Router {
    pub(crate) fn new(world: &Arc<World>, throttles: &[Arc<Witness>]) -> Self {
        match world.scenario.source {
            Source::Routes => {
                let table = own(&world.scenario.tables[0], world, throttles);
                Self::Own(Routes::new(table))
            }
            Source::Http => {
                let table = HttpPolicies::parse(HTTP[0]).expect("a table");
                Self::Http(LiveHttpPolicies::new(table.policies))
            }
            Source::Grpc => {
                let options = Options::new().on_deadline(OnDeadline::Cap);
                Self::Grpc(LiveServiceConfig::with_default(GRPC[0], options).expect("a config"))
            }
        }
    }

    /// Puts the table with this index into force.
    pub(crate) fn swap(&self, world: &Arc<World>, throttles: &[Arc<Witness>], table: usize) {
        match self {
            Self::Own(routes) => {
                routes.swap(own(&world.scenario.tables[table], world, throttles));
            }
            Self::Http(live) => {
                live.update("{}}").expect_err("no JSON");
                live.update(HTTP[table % HTTP.len()]).expect("a table");
            }
            Self::Grpc(live) => {
                live.update("{}}").expect_err("no JSON");
                live.update(GRPC[table % GRPC.len()]).expect("a config");
            }
        }
    }
}

impl Route<Call<Payload>> for Router {
    fn route(&self, call: &Call<Payload>) -> Option<Arc<RoutePolicy>> {
        match self {
            Self::Own(routes) => routes.load()[call.request.class].clone(),
            Self::Http(_) | Self::Grpc(_) => None,
        }
    }
}

impl<B> Route<Request<B>> for Router {
    fn route(&self, request: &Request<B>) -> Option<Arc<RoutePolicy>> {
        match self {
            Self::Own(routes) => {
                let class = (0..CLASSES).find(|class| {
                    let path = request.uri().path();
                    path.ends_with(&format!("M{class}"))
                });
                routes.load()[class?].clone()
            }
            Self::Http(live) => live.route(request),
            Self::Grpc(live) => live.route(request),
        }
    }
}

const HTTP: [&str; 3] = [
    r#"{"routes": [
        {"name": "a", "match": {"path": "/adversary.S/M0"}, "timeout": "0.08s",
         "hedge": {"maxAttempts": 3, "delay": "0.01s", "budgetPercent": 50}},
        {"name": "b", "match": {"path": "/adversary.S/M1"}, "throttle": "t",
         "retry": {"maxAttempts": 4, "backoff": {"initial": "0.01s", "jitter": "none"}}}],
      "throttles": {"t": {"maxTokens": 4, "tokenRatio": 0.1}}}"#,
    r#"{"routes": [
        {"name": "a", "match": {"path": "/adversary.S/M0"}, "attemptTimeout": "0.01s",
         "retry": {"maxAttempts": 2, "backoff": {"initial": "0.02s", "jitter": "none"}}},
        {"name": "b", "match": {"path": "/adversary.S/M1"}, "throttle": "t",
         "hedge": {"maxAttempts": 2, "delay": "0.005s", "onlyIdempotent": false, "budgetPercent": 10}}],
      "default": {"timeout": "0.06s"},
      "throttles": {"t": {"maxTokens": 8, "tokenRatio": 0.5}}}"#,
    r#"{"default": {"timeout": "0.2s", "retry": {"preset": "aws-standard-2.1", "backoff": {"jitter": "none"}}}}"#,
];

const GRPC: [&str; 3] = [
    r#"{"methodConfig": [
        {"name": [{"service": "adversary.S", "method": "M0"}], "timeout": "0.1s",
         "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.03s", "backoffMultiplier": 2,
                         "retryableStatusCodes": ["UNAVAILABLE"]}},
        {"name": [{"service": "adversary.S", "method": "M1"}],
         "hedgingPolicy": {"maxAttempts": 4, "hedgingDelay": "0.005s", "nonFatalStatusCodes": [14]}}],
      "retryThrottling": {"maxTokens": 10, "tokenRatio": 1.7339}}"#,
    r#"{"methodConfig": [
        {"name": [{"service": "adversary.S"}], "timeout": "0.05s",
         "hedgingPolicy": {"maxAttempts": 3, "nonFatalStatusCodes": [14]}}]}"#,
    "{}",
];
