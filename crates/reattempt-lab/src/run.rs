//! Runs of a scenario.

use std::sync::Arc;

use reattempt::HedgePolicy;
use reattempt::config::{Fault, Faults};

use crate::policy::{HedgeMaker, PolicyText, Stack};
use crate::report::{Outcome, Report};
use crate::scenario::Scenario;
use crate::world::{MOST_IN_FLIGHT, Stopped, World};

/// What a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most events of one policy's run, and of a whole search; a billion by default. A policy
    /// that retries without a limit against a server that never recovers has no other end.
    pub max_events: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_events: 1_000_000_000,
        }
    }
}

impl Scenario {
    /// Adds a policy under this name: an idempotent call is hedged by what `make` makes for each
    /// process, and nothing else is done. For hedge delays of your own.
    #[must_use]
    pub fn hedged(
        mut self,
        name: &str,
        make: impl Fn() -> HedgePolicy + Send + Sync + 'static,
    ) -> Self {
        let mut stack = Stack::of(PolicyText::HttpPolicy("{}".to_owned()));
        stack.path = format!("$.policies.{name}");
        stack.hedge = Some(HedgeMaker(Arc::new(make)));
        self.policies.push((name.to_owned(), stack));
        self
    }

    /// Runs all policies, one after another, without findings.
    pub(crate) fn simulate(&self, limits: &Limits) -> Result<Report, Faults> {
        let policies = self.policies.iter().map(|(name, policy)| {
            let outcome = self.run_policy(policy, &mut limits.max_events.clone());
            let outcome = outcome.map_err(|stopped| {
                let fault = Fault::new(&policy.path, message(stopped, limits));
                Faults::new("the scenario", vec![fault])
            })?;
            Ok((name.clone(), outcome))
        });
        Ok(Report {
            policies: policies.collect::<Result<_, Faults>>()?,
        })
    }

    /// `left` is how many events the run may take, and then how many it did not.
    pub(crate) fn run_policy(&self, policy: &Stack, left: &mut u64) -> Result<Outcome, Stopped> {
        let world = World::new(self, policy, None).ok_or(Stopped::Policy)?;
        let counts = world.run(left)?;
        Ok(counts.outcome(self))
    }
}

pub(crate) fn message(stopped: Stopped, limits: &Limits) -> String {
    match stopped {
        Stopped::Events => format!(
            "the run was ended after {} events: calls are retried without an end, or the scenario is larger than --max-events allows",
            limits.max_events
        ),
        Stopped::InFlight => {
            format!("more than {MOST_IN_FLIGHT} calls or attempts are in flight at one time")
        }
        Stopped::Policy => "the policy cannot be read".to_owned(),
    }
}
