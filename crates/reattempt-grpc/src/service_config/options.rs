//! What the client says beside the service config.

use reattempt::OnDeadline;
use reattempt::backoff::{Jitter, Randomness};
use reattempt_http::RefusedStream;

/// The client's own settings, which the service config cannot change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// More attempts than this act as this (A6, Limits on Retries and Hedges); 5 by default. A
    /// hedged call sends at most 16.
    pub max_attempts_limit: u32,
    /// How delays are spread: A6's `Full` by default; `Proportional(0.2)` is A6 since 2024.
    pub jitter: Jitter,
    /// Where random numbers come from.
    pub randomness: Randomness,
    /// What to do with a delay that does not fit before the deadline, also of a transparent retry
    /// of a method without policy.
    pub on_deadline: OnDeadline,
    /// Load balancing policies that stand below, beside those of gRPC's own schema. A config that
    /// names none of either is invalid (A21).
    pub load_balancing_policies: Vec<String>,
    /// What REFUSED_STREAM says of a call of any method; absent is the classifier's choice.
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
    /// A6's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With another limit of attempts (below 2 counts as 2, the least that a policy can say).
    #[must_use]
    pub fn max_attempts_limit(mut self, limit: u32) -> Self {
        self.max_attempts_limit = limit.max(2);
        self
    }

    /// With another jitter.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// With random numbers from here.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// With another answer to delays that do not fit.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }

    /// Where this load balancing policy stands below too.
    #[must_use]
    pub fn load_balancing_policy(mut self, name: impl Into<String>) -> Self {
        self.load_balancing_policies.push(name.into());
        self
    }

    /// Where a proxy may say REFUSED_STREAM of calls that it had passed on,
    /// [`RefusedStream::Ambiguous`].
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }
}
