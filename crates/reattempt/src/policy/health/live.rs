//! A health policy that can be replaced while it is used.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::options::HealthPolicy;

/// A [`HealthPolicy`] that can be replaced while it is used. Clones share it.
///
/// Backends and circuit breakers that were made with it keep what they know of their members, and
/// look at the newest policy whenever they decide; what is due by time follows within a second. If
/// fewer backends may be ejected then, those that were ejected first return.
///
/// ```
/// use std::time::Instant;
/// use reattempt::health::{CircuitBreaker, HealthPolicy, LiveHealthPolicy};
///
/// let live = LiveHealthPolicy::new(HealthPolicy::standard());
/// let breaker = CircuitBreaker::new(live.clone(), Instant::now());
/// live.set(HealthPolicy::standard().consecutive_failures(10));
/// # drop(breaker);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LiveHealthPolicy(Arc<ArcSwap<HealthPolicy>>);

impl LiveHealthPolicy {
    /// Starts with this policy.
    #[must_use]
    pub fn new(policy: HealthPolicy) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(policy)))
    }

    /// The policy now.
    #[must_use]
    pub fn load(&self) -> Arc<HealthPolicy> {
        self.0.load_full()
    }

    /// Replaces it.
    pub fn set(&self, policy: HealthPolicy) {
        self.0.store(Arc::new(policy));
    }
}

/// One that is never replaced.
impl From<HealthPolicy> for LiveHealthPolicy {
    fn from(policy: HealthPolicy) -> Self {
        Self::new(policy)
    }
}

/// A clone.
impl From<&Self> for LiveHealthPolicy {
    fn from(live: &Self) -> Self {
        live.clone()
    }
}
