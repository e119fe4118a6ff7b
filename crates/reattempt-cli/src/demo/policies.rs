//! The policies of the two routes, shared by all protocols without rules of their own.

use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::strategy::MaxAttempts;
use reattempt::throttle::InvalidTokenBucket;
use reattempt::{HedgePolicy, RoutePolicy, TokenBucket};

use super::load::Plan;

/// Maximum number of attempts on the retried route.
pub(crate) const MOST_ATTEMPTS: u32 = 5;
/// Maximum number of attempts on the hedged route.
pub(crate) const MOST_HEDGED: u32 = 3;
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(10);
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_millis(200);
pub(crate) const HEDGE_DELAY: Duration = Duration::from_millis(50);
/// What a success returns to the bucket, in thousandths of a token.
pub(crate) const MILLI_RATIO: u32 = 500;

/// One policy per route: searches are hedged, everything else is retried.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    get: Arc<RoutePolicy>,
    search: Arc<RoutePolicy>,
    strategy: MaxAttempts,
}

impl Policies {
    pub(crate) fn new(plan: &Plan) -> Self {
        let backoff = Backoff::exponential(FIRST_BACKOFF, LONGEST_BACKOFF)
            .jitter(Jitter::Proportional(0.2))
            .randomness(Randomness::seeded(plan.seed));
        let strategy = MaxAttempts::new(MOST_ATTEMPTS, backoff);
        Self {
            get: Arc::new(RoutePolicy::new("get").retry(strategy.clone())),
            search: Arc::new(RoutePolicy::new("search").hedge(hedge())),
            strategy,
        }
    }

    pub(crate) fn strategy(&self) -> MaxAttempts {
        self.strategy.clone()
    }

    pub(crate) fn of(&self, search: bool) -> Arc<RoutePolicy> {
        Arc::clone(if search { &self.search } else { &self.get })
    }
}

pub(crate) fn hedge() -> HedgePolicy {
    HedgePolicy::new(MOST_HEDGED, HEDGE_DELAY)
}

/// The server's bucket, initially full.
pub(crate) fn bucket(plan: &Plan) -> Result<TokenBucket, InvalidTokenBucket> {
    TokenBucket::new(plan.tokens(), MILLI_RATIO)
}
