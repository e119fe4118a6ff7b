//! A caller: makes its call, polls it, may drop it, and may report how a committed response ended.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use reattempt::reason::UNKNOWN;
use reattempt::test_util::ms;
use reattempt::{CallContext, CallDeadline, Failure, HasCallContext, RetryInfo, Stage, Verdict};
use reattempt_tests::alive::Live;
use tokio::time::Instant;
use tower_service::Service;

use crate::carrier::{Carrier, Stack};
use crate::facts::{Facts, PolicyFacts};
use crate::fate::Takes;
use crate::log::Event;
use crate::policies::Router;
use crate::reply::{CallResult, Fault, Reply};
use crate::scenario::{CallPlan, Concludes, Leaves, Source};
use crate::strategy::StrategyPlan;
use crate::throttle::Witness;
use crate::world::World;

/// What a caller knows of its call at the end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) facts: Facts,
    pub(crate) info: Option<RetryInfo>,
    /// The highest number of polls at one instant.
    pub(crate) polls: u32,
}

/// Longer than any call that ends by itself.
const HANGS: u64 = 1000 * 24 * 60 * 60 * 1000;
/// When the caller drops a call that may never end.
const PATIENCE: u64 = 30_000;

pub(crate) struct Caller<'a> {
    pub(crate) world: &'a Arc<World>,
    pub(crate) router: &'a Router,
    pub(crate) throttles: &'a [Arc<Witness>],
    pub(crate) call: usize,
}

impl Caller<'_> {
    fn plan(&self) -> &CallPlan {
        &self.world.scenario.calls[self.call]
    }

    fn note(&self, event: Event) {
        self.world.note_of(self.call, event);
    }

    pub(crate) async fn run<R: Carrier>(&self, mut stack: Stack<R::Outside>) -> Option<Seen> {
        let plan = self.plan();
        if plan.starts > 0 {
            tokio::time::sleep(ms(plan.starts)).await;
        }
        let ready = poll_fn(|cx| self.scoped(|| stack.poll_ready(cx)));
        if !matches!(tokio::time::timeout(ms(100), ready).await, Ok(Ok(()))) {
            return None;
        }
        let mut request = R::make(self.world, self.call);
        let info = plan.watched.then(|| RetryInfo::track(&mut request));
        self.attach(request.context_mut());
        let facts = self.facts::<R>(&request);
        self.note(Event::Begins);
        let future = self.scoped(|| stack.call(request));
        let (outcome, polls) = self.drive(future, self.patience(&facts)).await;
        if let Some(outcome) = outcome {
            self.conclude(&outcome);
        }
        Some(Seen {
            facts,
            info: info.map(|watch| watch.info()),
            polls,
        })
    }

    fn scoped<T>(&self, run: impl FnOnce() -> T) -> T {
        self.world.scoped(self.call, run)
    }

    fn attach(&self, context: &mut CallContext) {
        let plan = self.plan();
        if plan.idempotency != reattempt::Idempotency::Unknown {
            context.set_idempotency(plan.idempotency);
        }
        if let Some(limit) = plan.limit {
            let at = (Instant::now() + ms(limit)).into_std();
            context.attach_deadline(CallDeadline::attached(at));
        }
        if let Some(strategy) = &plan.strategy {
            context.set_strategy(strategy.make(self.world));
        }
        if let Some(policy) = &plan.policy {
            context.set_policy(policy.make(self.world, self.throttles));
        }
        if let Some(throttle) = plan.throttle {
            context.set_throttle(self.throttles[throttle].clone());
        }
        if plan.watched {
            context.set_data(Live::one_of(&self.world.alive.contexts));
        }
    }

    fn facts<R: Carrier>(&self, request: &R::Outside) -> Facts {
        let table = self.world.table.load(Ordering::Relaxed);
        let route = match self.world.scenario.source {
            Source::Routes => {
                let plan = self.world.scenario.tables[table][self.plan().class].as_ref();
                plan.map(|plan| PolicyFacts::of_plan(plan, self.world))
            }
            Source::Http | Source::Grpc => {
                R::policy(self.router, request).map(|policy| PolicyFacts::of_table(&policy))
            }
        };
        Facts::of(self.world, self.call, route.as_ref())
    }

    /// When the caller drops the call, and whether a call that lasts so long counts as hanging.
    fn patience(&self, facts: &Facts) -> (u64, bool) {
        let plan = self.plan();
        let scenario = &self.world.scenario;
        let odd = |of: &StrategyPlan| matches!(of, StrategyPlan::Odd(_));
        // Attempts that always reach their own timeout are retried as long as they fail.
        let endless = plan.again
            || facts.attempt_limit.is_some()
            || facts.misplaced
            || plan
                .fates
                .iter()
                .any(|fate| !matches!(fate.takes, Takes::Ms(_)))
            || plan.readiness.iter().any(|ready| ready.after.is_none())
            || format!("{:?}{:?}{:?}", plan.policy, scenario.tables, plan.strategy).contains("Odd")
            || odd(&scenario.strategy);
        match plan.leaves {
            Some(Leaves::AfterMs(after)) => (after, false),
            Some(Leaves::AfterPolls(_)) => (PATIENCE, false),
            None if endless && !facts.limit.is_some_and(|(_, enforced)| enforced) => {
                (PATIENCE, false)
            }
            None => (HANGS, true),
        }
    }

    /// Polls the call until it ends or its caller drops it; returns the highest number of polls at
    /// one instant.
    async fn drive<F>(&self, future: F, patience: (u64, bool)) -> (Option<F::Output>, u32)
    where
        F: Future<Output = Result<Reply, Fault>>,
    {
        let polls_left = match self.plan().leaves {
            Some(Leaves::AfterPolls(polls)) => polls,
            _ => u32::MAX,
        };
        let mut future = Some(Box::pin(future));
        let mut leave = pin!(tokio::time::sleep(ms(patience.0)));
        let (mut polls, mut most, mut total, mut at) = (0, 0, 0, 0);
        let outcome = poll_fn(|cx: &mut Context<'_>| {
            let now = self.world.now();
            polls = if at == now { polls + 1 } else { 1 };
            (most, at) = (polls.max(most), now);
            if let Some(future) = future.as_mut().filter(|_| total < polls_left) {
                total += 1;
                let polled = self.scoped(|| {
                    let polled = future.as_mut().poll(cx);
                    if let Poll::Ready(outcome) = &polled {
                        self.note(Event::Over(CallResult::of(outcome.as_ref())));
                    }
                    polled
                });
                if let Poll::Ready(outcome) = polled {
                    return Poll::Ready(Some(outcome));
                }
            }
            if total >= polls_left || leave.as_mut().poll(cx).is_ready() {
                assert!(!patience.1, "the call hangs");
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await;
        if outcome.is_none() {
            self.note(Event::Left);
        }
        self.scoped(|| drop(future.take()));
        (outcome, most)
    }

    fn conclude(&self, outcome: &Result<Reply, Fault>) {
        const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);
        let (Ok(reply) | Err(Fault::Server(reply))) = outcome else {
            return;
        };
        let end = match self.plan().concludes {
            Concludes::No => return,
            Concludes::Well => Verdict::Success,
            Concludes::Failing(true) => Verdict::Retry(FAILURE),
            Concludes::Failing(false) => Verdict::Fatal(FAILURE),
        };
        self.note(Event::Concludes);
        // Reported twice, it counts once.
        for _ in 0..2 {
            self.scoped(|| reply.reporter.finish(&end));
        }
    }
}
