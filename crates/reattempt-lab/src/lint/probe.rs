//! A route of a policy, parsed three times: with the lowest, the middle and the highest roll of
//! its jitter.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reattempt::driver::HedgeDriver;
use reattempt::policy::{HedgeAdmission, HedgeDelay, HedgeView};
use reattempt::{
    CallContext, Decision, Failure, HedgePolicy, Idempotency, Recovery, RetryStrategy,
    RetryThrottle, RetryView, RoutePolicy, ServerPushback, Stage, Verdict, reason,
};

use super::asked::{Answers, Asked};
use super::routes::{KV, Route, routes};
use crate::load::CallKind;
use crate::policy::{Outcome, Parsed, PolicyText, Protocol, Routes, Simulated};

/// The rolls: no jitter is the same for all.
const ROLLS: [f64; 3] = [0.0, 0.5, 0.999];

/// The most retries that are asked about.
const MOST: u32 = 100;

pub(super) struct Probe<'a> {
    /// The index of the route.
    at: usize,
    /// Of the route.
    pub(super) path: String,
    /// Of its throttle, if that is not a part of the route.
    throttle_path: Option<String>,
    pub(super) protocol: Protocol,
    /// With each roll.
    policies: Vec<Arc<RoutePolicy>>,
    /// Of its hedges alone.
    pub(super) budget: Option<Arc<dyn RetryThrottle>>,
    /// The scenario's calls that take this route.
    calls: Vec<&'a CallKind>,
    /// Of all routes, because some share a throttle.
    asked: Rc<Asked<'a>>,
}

impl<'a> Probe<'a> {
    /// All routes of a policy, under which these calls are made.
    pub(super) fn all(text: &'a PolicyText, calls: &'a [CallKind]) -> Vec<Self> {
        let parsed: Vec<Parsed> = ROLLS
            .iter()
            .filter_map(|roll| text.parse(&Simulated::fixed(*roll)).ok())
            .collect();
        let protocol = text.protocol();
        let routes: Vec<Vec<Route>> = parsed.iter().map(|parsed| routes(parsed, text)).collect();
        let Some(first) = routes.first() else {
            return Vec::new();
        };
        let by_route = by_route(&parsed[0], calls);
        let asked = Rc::new(Asked::of(text, Simulated::fixed(ROLLS[0])));
        let probe = |at: usize| Self {
            at,
            path: first[at].path.clone(),
            throttle_path: first[at].throttle.clone(),
            protocol,
            policies: routes
                .iter()
                .map(|routes| Arc::clone(&routes[at].policy))
                .collect(),
            budget: match &parsed[0] {
                Parsed::Http(policies) => policies
                    .hedge_budget(first[at].policy.name())
                    .map(|budget| Arc::clone(budget) as Arc<dyn RetryThrottle>),
                _ => None,
            },
            calls: {
                let names = first[at].names.iter();
                let calls = names.filter_map(|name| by_route.get(name));
                calls.flatten().copied().collect()
            },
            asked: Rc::clone(&asked),
        };
        (0..first.len()).map(probe).collect()
    }

    pub(super) fn policy(&self) -> &RoutePolicy {
        &self.policies[0]
    }

    fn strategies(&self) -> Vec<&Arc<dyn RetryStrategy>> {
        let strategies = self
            .policies
            .iter()
            .filter_map(|policy| match policy.recovery() {
                Recovery::Retry(strategy) => Some(strategy),
                _ => None,
            });
        strategies.collect()
    }

    /// The most attempts of a route that retries more than never; `u32::MAX` is no limit.
    pub(super) fn retries(&self) -> Option<u32> {
        let strategy = *self.strategies().first()?;
        let most = strategy.max_attempts().unwrap_or(u32::MAX);
        (most > 1 && !delays(strategy, 1).is_empty()).then_some(most)
    }

    /// The delays before each retry with the lowest, the middle and the highest roll.
    pub(super) fn delays(&self) -> Vec<Vec<Duration>> {
        let retries = self.retries().unwrap_or(1).min(MOST) - 1;
        let of = |strategy| delays(strategy, retries);
        self.strategies().into_iter().map(of).collect()
    }

    /// What sends hedges.
    pub(super) fn hedge(&self) -> Option<&HedgePolicy> {
        match self.policy().recovery() {
            Recovery::Hedge(hedge) if hedge.max_attempts() > 1 => Some(hedge),
            _ => None,
        }
    }

    /// The smallest limit of the scenario's calls that take this route.
    pub(super) fn limit(&self) -> Option<Duration> {
        let limits = self.calls.iter().filter_map(|kind| kind.timeout);
        limits.min().map(Duration::from_nanos)
    }

    /// Whether it sends hedges of one of the scenario's calls. Without a scenario it may.
    pub(super) fn may_send(&self, hedge: &HedgePolicy) -> bool {
        let plans = |kind: &&CallKind| {
            let idempotency = if kind.is_idempotent(self.protocol) {
                Idempotency::Idempotent
            } else {
                Idempotency::NotIdempotent
            };
            let mut driver = HedgeDriver::new(hedge, idempotency);
            driver.machine.pending(now(), hedge);
            driver.machine.wake().is_some()
        };
        self.calls.is_empty() || self.calls.iter().any(plans)
    }

    /// Whether the policy sends more than one attempt of a call.
    pub(super) fn repeats(&self) -> bool {
        self.retries().is_some() || self.hedge().is_some()
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.policy().throttle().is_some()
    }

    /// How the throttle answers when it starts full.
    pub(super) fn throttle(&self) -> Option<Answers> {
        let throttle = self.policy().throttle()?;
        let composed = self.budget.is_some();
        self.asked.answers(throttle, self.at, composed)
    }

    fn context(&self, at: usize) -> CallContext {
        let mut context = CallContext::default();
        context.attach_policy(Arc::clone(&self.policies[at]));
        context
    }

    /// The verdict on an answer with this code.
    pub(super) fn verdict(&self, code: i32) -> Verdict {
        let answer = Outcome::Answer {
            code,
            pushback_ms: None,
        };
        self.protocol.verdict(answer, &self.context(0))
    }

    /// The pushback that is read with the lowest and the highest roll.
    pub(super) fn pushbacks(&self, code: i32, ms: u32) -> [Option<ServerPushback>; 2] {
        let answer = Outcome::Answer {
            code,
            pushback_ms: Some(ms),
        };
        [0, ROLLS.len() - 1].map(|at| self.protocol.pushback(answer, &self.context(at)))
    }

    /// The place of its throttle: from the root if routes share it, else the member that has one of
    /// its own.
    pub(super) fn throttle_place(&self) -> &str {
        let shared = self.throttle_path.as_deref();
        shared.unwrap_or_else(|| self.member())
    }

    /// The member of the route that recovers.
    pub(super) fn member(&self) -> &'static str {
        let hedges = self.hedge().is_some();
        match (self.protocol, hedges) {
            (Protocol::Grpc, false) => ".retryPolicy",
            (Protocol::Grpc, true) => ".hedgingPolicy",
            (Protocol::Http, false) => ".retry",
            (Protocol::Http, true) => ".hedge",
            (Protocol::Kv, _) => "",
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "no time passes here")]
fn now() -> Instant {
    Instant::now()
}

/// Whether a hedge delay holds hedges back by itself: it does so when no call has paid for them.
pub(super) fn holds_back(delay: &dyn HedgeDelay) -> bool {
    let view = HedgeView::new(now());
    (0..1000).any(|_| delay.admit(&view) != HedgeAdmission::Send)
}

/// The delays of a strategy before this many retries, or fewer if it stops.
fn delays(strategy: &Arc<dyn RetryStrategy>, retries: u32) -> Vec<Duration> {
    let failure = Failure::new(reason::UNKNOWN, Stage::Response);
    let now = now();
    let mut previous = None;
    let delays = (0..retries).map_while(|retries| {
        let mut view = RetryView::new(&failure, now).retries(retries);
        if let Some(delay) = previous {
            view = view.previous_delay(delay);
        }
        match strategy.decide(&view) {
            Decision::After(delay) => {
                previous = Some(delay);
                Some(delay)
            }
            _ => None,
        }
    });
    delays.collect()
}

/// Calls, by the names of the routes that they take.
fn by_route<'c>(parsed: &Parsed, calls: &'c [CallKind]) -> HashMap<String, Vec<&'c CallKind>> {
    let routes = Routes::of(parsed);
    let mut by_route: HashMap<_, Vec<_>> = HashMap::new();
    for kind in calls {
        let name = match (parsed, routes.policy(kind)) {
            (Parsed::Kv(_), _) => KV.to_owned(),
            (_, Some(policy)) => policy.name().to_owned(),
            (_, None) => continue,
        };
        by_route.entry(name).or_default().push(kind);
    }
    by_route
}
