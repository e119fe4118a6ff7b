//! The strategies that a program's documents can name.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::strategy::{BestEffort, MaxAttempts};
use reattempt::{Decision, OnDeadline, RetryStrategy, RetryView};

/// The strategies of RFC 0049 and RFC 0013 by name, and one with configured numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvStrategy {
    /// `best_effort`: RFC 0049's best effort.
    BestEffort,
    /// `fail_fast`: RFC 0049's fail fast. Always-retry reasons are retried all the same.
    FailFast,
    /// `error_map`: RFC 0013's error maps of the servers, and best effort where they have no entry.
    ErrorMap,
    /// A constant delay.
    Constant {
        /// Before every retry.
        delay: Duration,
        /// The first included.
        max_attempts: NonZeroU32,
    },
}

impl KvStrategy {
    /// Those that have a name alone.
    pub const NAMED: &'static [(&'static str, Self)] = &[
        ("best_effort", Self::BestEffort),
        ("fail_fast", Self::FailFast),
        ("error_map", Self::ErrorMap),
    ];

    /// The strategy. `error_map` makes the one that uses the servers' maps, and the given one where
    /// they have no entry.
    pub fn make(
        self,
        on_deadline: OnDeadline,
        error_map: impl FnOnce(BestEffort) -> Arc<dyn RetryStrategy>,
    ) -> Arc<dyn RetryStrategy> {
        let best_effort = BestEffort::new().on_deadline(on_deadline);
        match self {
            Self::BestEffort => Arc::new(best_effort),
            Self::FailFast => Arc::new(FailFast(on_deadline)),
            Self::ErrorMap => error_map(best_effort),
            Self::Constant {
                delay,
                max_attempts,
            } => Arc::new(
                MaxAttempts::new(max_attempts.get(), Backoff::constant(delay))
                    .on_deadline(on_deadline),
            ),
        }
    }
}

/// RFC 0049's fail fast, whose always-retry reasons end at the deadline as configured.
#[derive(Clone, Copy, Debug)]
struct FailFast(OnDeadline);

impl RetryStrategy for FailFast {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Stop
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(self.0)
    }
}
