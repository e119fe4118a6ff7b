//! The client's own settings beside the service config.

use reattempt::OnDeadline;
use reattempt::backoff::{Jitter, Randomness};
use reattempt_http::RefusedStream;

/// The client's own settings, which a service config cannot change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The limit of `maxAttempts`; a larger value acts as this (A6, Limits on Retries and Hedges).
    /// 5 by default. A hedged call sends at most 16.
    pub max_attempts_limit: u32,
    /// The jitter of delays: A6's `Full` by default; `Proportional(0.2)` is A6 since 2024.
    pub jitter: Jitter,
    /// The source of random numbers.
    pub randomness: Randomness,
    /// What to do with a delay that would pass the deadline; also applies to transparent retries of
    /// methods without a policy.
    pub on_deadline: OnDeadline,
    /// Load balancing policies that the client below supports, besides those of gRPC's own schema.
    /// A config that names none of either is invalid (A21).
    pub load_balancing_policies: Vec<String>,
    /// What REFUSED_STREAM means for calls of any method; if absent, the classifier decides.
    pub refused: Option<RefusedStream>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_attempts_limit: 5,
            jitter: Jitter::Full,
            randomness: Randomness::default(),
            on_deadline: OnDeadline::Cap,
            load_balancing_policies: Vec::new(),
            refused: None,
        }
    }
}

impl Options {
    /// The defaults of A6.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limit of attempts (below 2 counts as 2, the smallest valid `maxAttempts`).
    #[must_use]
    pub fn max_attempts_limit(mut self, limit: u32) -> Self {
        self.max_attempts_limit = limit.max(2);
        self
    }

    /// Sets the jitter.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the source of random numbers.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Sets what to do with delays that would pass the deadline.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }

    /// Adds a load balancing policy that the client below supports.
    #[must_use]
    pub fn load_balancing_policy(mut self, name: impl Into<String>) -> Self {
        self.load_balancing_policies.push(name.into());
        self
    }

    /// Sets what REFUSED_STREAM means. Use [`RefusedStream::Ambiguous`] if a proxy may send it for
    /// calls that it has forwarded.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }
}
