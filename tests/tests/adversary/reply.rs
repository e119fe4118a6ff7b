//! The result of an attempt, and what a caller receives.

use std::sync::Arc;

use reattempt::ConfigWaiter;
use reattempt::test_util::ms;
use reattempt::{AttemptReporter, DeadlineScope, Elapsed, Verdict};
use reattempt_tests::alive::Live;

use crate::fate::{Fate, Waiter};
use crate::world::World;

/// The result of an attempt, as a response or inside an error.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) place: usize,
    pub(crate) fate: Fate,
    pub(crate) reporter: AttemptReporter,
    pub(crate) world: Arc<World>,
    pub(crate) _live: Live,
}

#[derive(Debug)]
pub(crate) enum Fault {
    Server(Reply),
    /// The service failed to become ready.
    Broken,
    Elapsed(Elapsed),
    /// The request body failed; true if it was abandoned for another attempt.
    Body(usize, bool),
}

impl From<Elapsed> for Fault {
    fn from(elapsed: Elapsed) -> Self {
        Self::Elapsed(elapsed)
    }
}

/// What a caller received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallResult {
    /// The result of this attempt.
    Attempt(usize, Verdict),
    Broken,
    Elapsed {
        scope: DeadlineScope,
        ambiguous: bool,
        attempts: u32,
    },
    Body(usize),
}

impl CallResult {
    pub(crate) fn of(outcome: Result<&Reply, &Fault>) -> Self {
        match outcome {
            Ok(reply) | Err(Fault::Server(reply)) => Self::Attempt(reply.place, reply.fate.verdict),
            Err(Fault::Broken) => Self::Broken,
            Err(Fault::Elapsed(elapsed)) => Self::Elapsed {
                scope: elapsed.scope,
                ambiguous: elapsed.ambiguous,
                attempts: elapsed.info.attempts(),
            },
            Err(Fault::Body(place, _)) => Self::Body(*place),
        }
    }
}

pub(crate) fn config_waiter(world: &Arc<World>, plan: Waiter) -> ConfigWaiter {
    let live = Live::one_of(&world.alive.waiters);
    Box::pin(async move {
        let _live = live;
        match plan.after {
            None => std::future::pending().await,
            Some(0) => {}
            Some(after) => tokio::time::sleep(ms(after)).await,
        }
        plan.moved
    })
}
