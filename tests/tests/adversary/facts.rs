//! The expected handling of a call, derived from the scenario: which layer acts on it, and within
//! which limits.

use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::{Idempotency, Recovery, RetryStrategy, RoutePolicy};

use crate::scenario::{CallPlan, HedgePlan, Kind, PolicyPlan, RecoveryPlan, Scenario};
use crate::strategy::StrategyPlan;
use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) struct StrategyFacts {
    pub(crate) max: Option<u32>,
    /// The back-off without server influence, for strategies without a maximum number of attempts.
    pub(crate) bound: Option<Backoff>,
    /// Waits at least as long as the server asks; other strategies may not.
    pub(crate) obeys: bool,
    /// The returned failure may be an earlier one.
    pub(crate) holds: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct HedgeFacts {
    pub(crate) max: u32,
    pub(crate) delay: u64,
    pub(crate) only_idempotent: bool,
}

#[derive(Clone, Debug)]
enum RecoveryFacts {
    Default,
    None,
    Retry(StrategyFacts),
    Hedge(HedgeFacts),
}

/// The throttle that counts the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Nowhere,
    /// The scenario's throttle with this index.
    In(usize),
    /// A throttle made by a JSON table.
    Unseen,
}

#[derive(Clone, Debug)]
pub(crate) struct PolicyFacts {
    recovery: RecoveryFacts,
    counts: Counts,
    call_limit: Option<u64>,
    attempt_limit: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Acts {
    /// No recovery layer acts; the innermost one still counts the call.
    Nothing,
    Retry(StrategyFacts),
    Hedge(HedgeFacts),
}

#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) acts: Acts,
    /// The timeout that the recovery layer sees, and whether a layer above it enforces it.
    pub(crate) limit: Option<(u64, bool)>,
    /// The limit had passed before anything could be sent.
    pub(crate) refused: bool,
    /// The limit had passed before the recovery layer could see the call.
    pub(crate) unseen: bool,
    /// The timeout of each attempt.
    pub(crate) attempt_limit: Option<u64>,
    /// When attempts are cut off, if a layer below enforces the caller's limit.
    pub(crate) cut_at: Option<u64>,
    pub(crate) counts: Counts,
    pub(crate) idempotent: bool,
    pub(crate) transparent: bool,
    pub(crate) observed: bool,
    /// Whether reports of `PushbackLayer` and `ConfigPollLayer` reach the recovery layer.
    pub(crate) pushback: bool,
    pub(crate) poll: bool,
    /// A layer that attaches context stands below the recovery layer.
    pub(crate) misplaced: bool,
}

fn strategy(plan: &StrategyPlan, world: &Arc<World>) -> StrategyFacts {
    let strategy = plan.make(world);
    StrategyFacts {
        bound: plan.bound(),
        obeys: !matches!(plan, StrategyPlan::Odd(_) | StrategyPlan::Aws),
        ..of_table(&strategy)
    }
}

fn of_table(strategy: &dyn RetryStrategy) -> StrategyFacts {
    StrategyFacts {
        max: strategy.max_attempts(),
        bound: None,
        // The strategy of a JSON table may cap the delay.
        obeys: false,
        holds: strategy.holds(),
    }
}

impl HedgePlan {
    fn facts(&self) -> HedgeFacts {
        HedgeFacts {
            max: self.max.clamp(1, 16),
            delay: self.delay,
            only_idempotent: self.only_idempotent,
        }
    }
}

impl PolicyFacts {
    pub(crate) fn of_plan(plan: &PolicyPlan, world: &Arc<World>) -> Self {
        Self {
            recovery: match &plan.recovery {
                RecoveryPlan::Default => RecoveryFacts::Default,
                RecoveryPlan::None => RecoveryFacts::None,
                RecoveryPlan::Retry(plan) => RecoveryFacts::Retry(strategy(plan, world)),
                RecoveryPlan::Hedge(plan) => RecoveryFacts::Hedge(plan.facts()),
            },
            counts: plan.throttle.map_or(Counts::Nowhere, Counts::In),
            call_limit: plan.call_limit,
            attempt_limit: plan.attempt_limit,
        }
    }

    /// A policy of a JSON table.
    pub(crate) fn of_table(policy: &RoutePolicy) -> Self {
        let ms = |limit: Duration| u64::try_from(limit.as_millis()).expect("a few");
        Self {
            recovery: match policy.recovery() {
                Recovery::Default => RecoveryFacts::Default,
                Recovery::None => RecoveryFacts::None,
                Recovery::Retry(retry) => RecoveryFacts::Retry(of_table(retry)),
                Recovery::Hedge(hedge) => RecoveryFacts::Hedge(HedgeFacts {
                    max: hedge.max_attempts(),
                    delay: ms(hedge.delay().fixed().unwrap_or_default()),
                    // Not known, so the weaker bound applies.
                    only_idempotent: false,
                }),
                other => panic!("no facts of {other:?}"),
            },
            counts: policy
                .throttle()
                .map_or(Counts::Nowhere, |_| Counts::Unseen),
            call_limit: policy.timeout().map(ms),
            attempt_limit: policy.attempt_timeout().map(ms),
        }
    }
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// What is known on the way down the layers.
struct Walk<'a> {
    plan: &'a CallPlan,
    policy: Option<PolicyFacts>,
    layer_counts: Counts,
    own_strategy: Option<StrategyFacts>,
    acted: bool,
    now: u64,
    facts: Facts,
}

impl Facts {
    /// The facts of a call that starts now; `route` is the policy that a `RouteLayer` finds for it.
    pub(crate) fn of(world: &Arc<World>, call: usize, route: Option<&PolicyFacts>) -> Self {
        let scenario = &world.scenario;
        let plan = &scenario.calls[call];
        let now = world.now();
        let own = plan.strategy.as_ref();
        let mut walk = Walk {
            plan,
            policy: plan
                .policy
                .as_ref()
                .map(|of| PolicyFacts::of_plan(of, world)),
            layer_counts: Counts::Nowhere,
            own_strategy: own.map(|of| strategy(of, world)),
            acted: false,
            now,
            facts: Self {
                acts: Acts::Nothing,
                limit: plan.limit.map(|limit| (now + limit, false)),
                refused: false,
                unseen: true,
                attempt_limit: None,
                cut_at: None,
                counts: Counts::Nowhere,
                idempotent: match plan.idempotency {
                    Idempotency::Unknown => scenario.http && plan.get,
                    own => own.is_idempotent(),
                },
                transparent: false,
                observed: false,
                pushback: false,
                poll: false,
                misplaced: false,
            },
        };
        let layer = strategy(&scenario.strategy, world);
        for kind in &scenario.order {
            match kind {
                Kind::Route => {
                    walk.facts.misplaced = true;
                    let route = route.cloned();
                    walk.policy = walk.policy.or(route);
                }
                Kind::Deadline(own) => walk.deadline(*own),
                Kind::Throttle => {
                    walk.facts.misplaced = true;
                    walk.layer_counts = Counts::In(0);
                }
                Kind::Retry | Kind::Hedge => walk.recovery(scenario, *kind, &layer),
                Kind::Pushback => walk.facts.pushback = true,
                Kind::ConfigPoll => walk.facts.poll = true,
            }
        }
        walk.facts
    }
}

impl Walk<'_> {
    fn deadline(&mut self, own: Option<u64>) {
        let policy = self.policy.as_ref();
        if self.acted {
            let own = least(own, policy.and_then(|policy| policy.attempt_limit));
            self.facts.attempt_limit = least(self.facts.attempt_limit, own);
            if let Some((at, false)) = self.facts.limit {
                self.facts.cut_at = Some(at);
            }
            return;
        }
        let own = least(own, policy.and_then(|policy| policy.call_limit));
        let own = own.map(|limit| self.now + limit);
        let attached = self.facts.limit.map(|(at, _)| at);
        if own.is_none_or(|own| attached.is_some_and(|at| at <= own)) {
            self.facts.refused |= attached.is_some_and(|at| at <= self.now)
                && !self.facts.limit.is_some_and(|(_, enforced)| enforced);
        }
        self.facts.limit = least(own, attached).map(|at| (at, true));
    }

    fn recovery(&mut self, scenario: &Scenario, kind: Kind, layer: &StrategyFacts) {
        if self.acted || self.facts.refused {
            return;
        }
        let recovery = self.policy.as_ref().map(|policy| &policy.recovery);
        let own = self.own_strategy.as_ref();
        let acts = match (kind, recovery, own) {
            (Kind::Retry, _, Some(own)) => Acts::Retry(own.clone()),
            (Kind::Retry, Some(RecoveryFacts::Hedge(_)), None) => Acts::Nothing,
            (Kind::Retry, Some(RecoveryFacts::Retry(policy)), None) => Acts::Retry(policy.clone()),
            (Kind::Retry, Some(RecoveryFacts::None), None) => Acts::Retry(StrategyFacts {
                max: Some(1),
                bound: None,
                obeys: true,
                holds: false,
            }),
            (Kind::Retry, Some(RecoveryFacts::Default) | None, None) => Acts::Retry(layer.clone()),
            (_, _, Some(_)) => Acts::Nothing,
            (_, Some(RecoveryFacts::Hedge(policy)), None) => Acts::Hedge(policy.clone()),
            (_, Some(RecoveryFacts::None | RecoveryFacts::Retry(_)), None) => Acts::Nothing,
            (_, Some(RecoveryFacts::Default) | None, None) => match &scenario.hedge {
                Some(hedge) => Acts::Hedge(hedge.facts()),
                None => Acts::Nothing,
            },
        };
        let policy = self.policy.as_ref().map(|policy| policy.counts);
        let policy = policy.filter(|counts| *counts != Counts::Nowhere);
        let own = self.plan.throttle.map(Counts::In);
        let facts = &mut self.facts;
        facts.unseen = false;
        facts.counts = own.or(policy).unwrap_or(self.layer_counts);
        let layer = usize::from(kind == Kind::Hedge);
        facts.transparent = scenario.transparent[layer];
        facts.observed = scenario.observed[layer];
        (facts.pushback, facts.poll, facts.misplaced) = (false, false, false);
        self.acted = !matches!(acts, Acts::Nothing);
        facts.acts = acts;
    }
}
