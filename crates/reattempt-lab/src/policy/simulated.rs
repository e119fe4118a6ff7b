//! What the parsers of policies are given instead of chance and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reattempt::backoff::Randomness;

/// The clock of a simulation: a base, and the nanoseconds that have passed since.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) base: Instant,
    passed: Arc<AtomicU64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            #[allow(
                clippy::disallowed_methods,
                reason = "a base for arithmetic; the clock is virtual"
            )]
            base: Instant::now(),
            passed: Arc::default(),
        }
    }

    pub(crate) fn set(&self, nanos: u64) {
        self.passed.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.passed.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn at(&self, nanos: u64) -> Instant {
        self.base + Duration::from_nanos(nanos)
    }

    pub(crate) fn now(&self) -> Instant {
        self.at(self.passed.load(Ordering::Relaxed))
    }
}

/// The chance and the time of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    pub(crate) randomness: Randomness,
    pub(crate) clock: Clock,
}

impl Simulated {
    /// Always the same roll, at the start.
    pub(crate) fn fixed(roll: f64) -> Self {
        Self {
            randomness: Randomness::Fixed(roll),
            clock: Clock::new(),
        }
    }
}
