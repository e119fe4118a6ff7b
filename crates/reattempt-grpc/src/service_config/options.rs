//! The client's own settings beside the service config.

use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::{Jitter, Randomness};
use reattempt::config::{Fault, log_warnings};
use reattempt::policy::{ExtraLoad, Percentile};
use reattempt::{HedgeDelay, OnDeadline, RetryThrottle};
use reattempt_http::RefusedStream;

use super::FORM;

/// The client's own settings, which a service config cannot change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The limit of `maxAttempts`; a larger value acts as this (A6, Limits on Retries and Hedges).
    /// 5 by default. A hedged call sends at most 8.
    pub max_attempts_limit: u32,
    /// The jitter of delays: A6's `Full` by default; `Proportional(0.2)` is A6 since 2024.
    pub jitter: Jitter,
    /// The source of random numbers.
    pub randomness: Randomness,
    /// What to do with a delay that would pass the deadline; also applies to transparent retries of
    /// methods without a policy.
    pub on_deadline: OnDeadline,
    /// Load balancing policies that the client below supports: a config that uses one of them gets
    /// no warning that it has no effect. A config that names neither one of these nor one of gRPC's
    /// own schema is invalid (A21).
    pub load_balancing_policies: Vec<String>,
    /// What REFUSED_STREAM means for calls of any method; if absent, the classifier decides.
    pub refused: Option<RefusedStream>,
    /// The throttle of all methods, such as a [`Governor`](reattempt::Governor), instead of the
    /// config's `retryThrottling`: [`throttle`](Self::throttle).
    pub throttle: Option<Arc<dyn RetryThrottle>>,
    /// When the hedges of methods with a `hedgingPolicy` are sent, instead of its `hedgingDelay`.
    pub hedge_delay: Option<LearnedDelay>,
    /// Whether methods have their `retryPolicy` or `hedgingPolicy`; true by default.
    pub retries: bool,
    /// Whether what has no effect in a config is logged; true by default.
    pub log_warnings: bool,
}

/// A hedge delay that is learned, each method's or service's entry by itself. A config that
/// replaces another keeps what an entry of the same name has learned.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LearnedDelay {
    /// The delay that costs this share of extra attempts, in percent of the calls, from 0.1 to 50:
    /// [`ExtraLoad`].
    ExtraLoad(f64),
    /// The delay that this percentage of the attempts, from 1 to 99.9, does not exceed, within
    /// these bounds: [`Percentile`].
    Percentile {
        /// From 1 to 99.9.
        percentile: f64,
        /// Never less.
        min: Duration,
        /// Never more; also the delay until enough is known.
        max: Duration,
    },
}

impl LearnedDelay {
    /// Numbers out of range are taken for the nearest that is valid. NaN leaves the config's own
    /// delay.
    pub(super) fn make(self) -> Option<Arc<dyn HedgeDelay>> {
        Some(match self {
            Self::ExtraLoad(percent) => {
                Arc::new(ExtraLoad::percent(percent.clamp(0.1, 50.0)).ok()?)
            }
            Self::Percentile {
                percentile,
                min,
                max,
            } => {
                let delay = Percentile::of(percentile.clamp(1.0, 99.9)).ok()?;
                Arc::new(delay.min(min).max(max))
            }
        })
    }
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
            throttle: None,
            hedge_delay: None,
            retries: true,
            log_warnings: true,
        }
    }
}

impl Options {
    pub(super) fn log(&self, warnings: &[Fault]) {
        if self.log_warnings {
            log_warnings(FORM.subject, warnings);
        }
    }

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

    /// Adds a load balancing policy that the client below supports, such as `round_robin` with a
    /// [`RoundRobin`](reattempt::RoundRobin).
    #[must_use]
    pub fn load_balancing_policy(mut self, name: impl Into<String>) -> Self {
        self.load_balancing_policies.push(name.into());
        self
    }

    /// Sets what REFUSED_STREAM means. Use [`RefusedStream::Ambiguous`] if a proxy may send it for
    /// calls that it has forwarded.
    #[must_use]
    pub fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }

    /// Sets the throttle of all methods, instead of the config's `retryThrottling`, which is then
    /// reported as a warning and makes no bucket
    /// ([`ServiceConfig::throttle`](super::ServiceConfig::throttle)). It is also that of all
    /// configs that are parsed with these options, so use other options for another server name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use reattempt::Governor;
    /// use reattempt_grpc::service_config::{LiveServiceConfig, Options};
    ///
    /// let options = Options::new().throttle(Arc::new(Governor::default()));
    /// let live = LiveServiceConfig::with_default("{}", options)?;
    /// # drop(live);
    /// # Ok::<(), reattempt::config::Faults>(())
    /// ```
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = Some(throttle);
        self
    }

    /// With `false` no method has a retry or hedging policy (A6, Disabling Retries), for a program
    /// that retries by itself; true by default. A config is validated all the same, and the rest of
    /// it stays: timeouts, `waitForReady`, message limits, and the throttle, in which calls count
    /// as before. Transparent retries need no policy: to disable them too, use
    /// `GrpcClientLayer::transparent`, or `transparent` of the recovery layers.
    #[must_use]
    pub const fn retries(mut self, on: bool) -> Self {
        self.retries = on;
        self
    }

    /// Sets whether what has no effect in a config is logged, at WARN with the target `reattempt`;
    /// true by default. False is for a program that shows the warnings itself. The log of a
    /// file that is [followed](super::LiveServiceConfig::follow) has those of later texts anyway.
    #[must_use]
    pub const fn log_warnings(mut self, on: bool) -> Self {
        self.log_warnings = on;
        self
    }

    /// Sets when hedges are sent, instead of the config's `hedgingDelay`.
    #[must_use]
    pub const fn hedge_delay(mut self, delay: LearnedDelay) -> Self {
        self.hedge_delay = Some(delay);
        self
    }
}
