//! What happens to a backend: its ejection and its return.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::field::debug;
use tracing::{info, warn};

use crate::in_drop::may_be_in_drop;

const TARGET: &str = "reattempt::health";

/// A backend was ejected or returned, or a circuit opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthEvent {
    /// The name of the backend, or of the circuit breaker; `None` if it has none.
    pub name: Option<Arc<str>>,
    /// What happened.
    pub change: HealthChange,
    /// Why.
    pub cause: HealthCause,
    /// For how long it is ejected or open; `None` for a return, and for a circuit that is opened by
    /// hand.
    pub ejected_for: Option<Duration>,
}

impl HealthEvent {
    /// Logs it: at WARN what keeps requests away, at INFO what lets them through again.
    pub(crate) fn log(&self) {
        let name = self.name.as_deref();
        let cause = self.cause.name();
        let time = self.ejected_for.map(debug);
        match self.change {
            HealthChange::Ejected => {
                warn!(target: TARGET, backend = name, cause, time, "a backend was ejected");
            }
            HealthChange::Returned => {
                info!(target: TARGET, backend = name, cause, "a backend returned");
            }
            HealthChange::Opened => {
                warn!(target: TARGET, circuit = name, cause, time, "a circuit opened");
            }
            HealthChange::Closed => {
                info!(target: TARGET, circuit = name, cause, "a circuit closed");
            }
        }
    }
}

/// What happened to a backend or a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthChange {
    /// A backend of several is not used for a time.
    Ejected,
    /// It is used again.
    Returned,
    /// A circuit refuses requests. Also after a failed trial.
    Opened,
    /// It lets them through.
    Closed,
}

impl HealthChange {
    /// All changes.
    pub const ALL: &'static [Self] = &[Self::Ejected, Self::Returned, Self::Opened, Self::Closed];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ejected => "ejected",
            Self::Returned => "returned",
            Self::Opened => "opened",
            Self::Closed => "closed",
        }
    }
}

/// Why a backend was ejected or returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthCause {
    /// A number of failures, or of long silences, without an answer between them.
    FailuresInARow,
    /// A50's success rate algorithm.
    SuccessRate,
    /// A50's failure percentage algorithm.
    FailurePercentage,
    /// The trial of a half-open circuit failed.
    FailedTrial,
    /// The time of its ejection is over.
    Time,
    /// It answered: a probe, a trial, or a request that had no other backend.
    Answered,
    /// Fewer may be ejected than are: the list became shorter, or the policy changed.
    FewerAllowed,
    /// A circuit breaker was switched.
    ByHand,
}

impl HealthCause {
    /// All causes.
    pub const ALL: &'static [Self] = &[
        Self::FailuresInARow,
        Self::SuccessRate,
        Self::FailurePercentage,
        Self::FailedTrial,
        Self::Time,
        Self::Answered,
        Self::FewerAllowed,
        Self::ByHand,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailuresInARow => "failures_in_a_row",
            Self::SuccessRate => "success_rate",
            Self::FailurePercentage => "failure_percentage",
            Self::FailedTrial => "failed_trial",
            Self::Time => "time",
            Self::Answered => "answered",
            Self::FewerAllowed => "fewer_allowed",
            Self::ByHand => "by_hand",
        }
    }
}

type Listener = Arc<dyn Fn(&HealthEvent) + Send + Sync>;

/// Who is notified of events. Their code does not run inside a lock.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Listener>>);

impl Listeners {
    pub(super) fn add(&self, listener: impl Fn(&HealthEvent) + Send + Sync + 'static) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(listener));
    }

    #[cold]
    pub(super) fn notify(&self, events: &[HealthEvent]) {
        let all = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for event in events {
            for listener in &all {
                may_be_in_drop(|| listener(event));
            }
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}
