//! A circuit breaker: the health of one backend, for which there is no other.

use std::time::{Duration, Instant};

use super::options::HealthPolicy;
use super::pool::{Pool, Sent};
use super::{FailurePercentageEjection, Outcome};
use crate::sync::{AtomicU8, Ordering};

/// Whether requests are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// They are.
    Closed,
    /// They are refused for this long.
    Open(Duration),
    /// One is let through at a time, as a trial: a success closes the circuit, a failure opens it
    /// again, for longer. So does a trial that is dropped after a long silence. One that hangs for
    /// the time of the opening is not waited for: the next request is a trial too.
    HalfOpen,
}

const AUTOMATIC: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// Refuses requests to one backend, or of one route, while it fails.
///
/// The policy's ejection is the opening of the circuit. What compares backends with each other has
/// no part in it: the success rate, the minimum of hosts and the share that may be ejected. Share
/// it in an `Arc`: the layer is one user, and the other switches it from outside.
#[derive(Debug)]
pub struct CircuitBreaker {
    pool: Pool,
    switch: AtomicU8,
}

impl CircuitBreaker {
    /// A closed circuit that exists from `now` on.
    #[must_use]
    pub fn new(policy: HealthPolicy, now: Instant) -> Self {
        let alone = |by: FailurePercentageEjection| FailurePercentageEjection {
            minimum_hosts: 1,
            ..by
        };
        let by_share = policy.failure_percentage.map(alone);
        let policy = policy
            .max_ejection_percent(100)
            .success_rate(None)
            .failure_percentage(by_share);
        Self {
            pool: Pool::returning(policy, 1, now, true),
            switch: AtomicU8::new(AUTOMATIC),
        }
    }

    /// Opens the circuit until it is switched again.
    pub fn open(&self) {
        self.switch.store(OPEN, Ordering::Relaxed);
    }

    /// Closes the circuit until it is switched again, whatever fails. Its own decisions go on: a
    /// success ends an opening.
    pub fn close(&self) {
        self.switch.store(CLOSED, Ordering::Relaxed);
    }

    /// Leaves the circuit to its own decisions, as at first. They went on meanwhile.
    pub fn automatic(&self) {
        self.switch.store(AUTOMATIC, Ordering::Relaxed);
    }

    /// The state now.
    #[must_use]
    pub fn state(&self, now: Instant) -> CircuitState {
        let for_now = self.pool.status(now)[0].ejected_for;
        match (self.switch.load(Ordering::Relaxed), for_now) {
            (OPEN, _) => CircuitState::Open(Duration::MAX),
            (AUTOMATIC, Some(left)) => refusal(left),
            _ => CircuitState::Closed,
        }
    }

    /// The state, if a request would be refused now. Reads the clock only if the circuit is not
    /// closed.
    #[cfg(feature = "tokio")]
    pub(crate) fn would_refuse(&self, now: impl FnOnce() -> Instant) -> Option<CircuitState> {
        match self.switch.load(Ordering::Relaxed) {
            OPEN => Some(CircuitState::Open(Duration::MAX)),
            CLOSED => None,
            _ => self.pool.would_refuse(now).map(refusal),
        }
    }

    /// Lets a request through.
    ///
    /// # Errors
    /// The state, if it is refused.
    pub fn admit(&self, now: Instant) -> Result<Sent, CircuitState> {
        match self.switch.load(Ordering::Relaxed) {
            OPEN => Err(CircuitState::Open(Duration::MAX)),
            CLOSED => Ok(self.pool.force(now)),
            _ => self.pool.admit(now).map_err(refusal),
        }
    }

    /// A request that was let through is over.
    pub fn ended(&self, sent: Sent, now: Instant, outcome: Outcome) {
        self.pool.ended(sent, now, outcome, None);
    }
}

const fn refusal(left: Duration) -> CircuitState {
    if left.is_zero() {
        CircuitState::HalfOpen
    } else {
        CircuitState::Open(left)
    }
}
