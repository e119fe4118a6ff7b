//! The strategies that a document can name for Couchbase: those of RFC 0049 and RFC 0013, and one
//! with configured numbers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::strategy::{BestEffort, MaxAttempts};
use reattempt::{Decision, OnDeadline, RetryStrategy, RetryView};
use serde::Deserialize;

use super::document::{Fault, Fields, Millis, Setup};

/// The field `strategy` of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strategy {
    Named(Name),
    Constant {
        delay: Duration,
        max_attempts: NonZeroU32,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Name {
    BestEffort,
    FailFast,
    ErrorMap,
}

impl Strategy {
    /// Best effort by default.
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Fault> {
        match fields.first_byte("strategy") {
            None | Some(b'"') => {
                let name = fields.or("strategy", Name::BestEffort)?;
                Ok(Self::Named(name))
            }
            Some(b'{') => {
                let mut constant = fields.nested("strategy");
                let strategy = Self::Constant {
                    delay: constant.required::<Millis>("constant_ms")?.0,
                    max_attempts: constant.required("max_attempts")?,
                };
                constant.finish();
                Ok(strategy)
            }
            Some(_) => Err(fields.fault(
                "strategy",
                "must be a name, or {\"constant_ms\": n, \"max_attempts\": m}",
            )),
        }
    }

    /// `error_map` uses the error maps of the servers, and best effort where they have no entry.
    pub(super) fn make(
        self,
        setup: &Setup,
        error_map: impl FnOnce(BestEffort) -> Arc<dyn RetryStrategy>,
    ) -> Arc<dyn RetryStrategy> {
        let on_deadline = setup.on_deadline_or_cap();
        let best_effort = BestEffort::new().on_deadline(on_deadline);
        match self {
            Self::Named(Name::BestEffort) => Arc::new(best_effort),
            Self::Named(Name::FailFast) => Arc::new(NeverRetry(on_deadline)),
            Self::Named(Name::ErrorMap) => error_map(best_effort),
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

/// RFC 0049's fail fast: never retries. Always-retry reasons bypass it, and end at the deadline as
/// the document configures.
#[derive(Clone, Copy, Debug)]
struct NeverRetry(OnDeadline);

impl RetryStrategy for NeverRetry {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Stop
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(self.0)
    }
}
