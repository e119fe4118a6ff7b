//! A strategy whose jitter is the recorded one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reattempt::backoff::Randomness;
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Surface};

/// The rolls of a policy's jitter, set by [`Fitting`].
#[derive(Clone, Debug, Default)]
pub(super) struct Roll(Arc<AtomicU64>);

/// Rolls have 53 bits.
const MOST: u64 = (1 << 53) - 1;

impl Roll {
    pub(super) fn randomness(&self) -> Randomness {
        let roll = Arc::clone(&self.0);
        Randomness::drawn(move || roll.load(Ordering::Relaxed) as f64 / (MOST + 1) as f64)
    }

    fn set(&self, roll: u64) {
        self.0.store(roll, Ordering::Relaxed);
    }
}

/// Finds the roll with which a strategy chooses the recorded delay. A delay grows or shrinks with
/// its roll, so that the roll need not be recorded.
#[derive(Debug)]
pub(super) struct Fitting {
    pub(super) inner: Arc<dyn RetryStrategy>,
    pub(super) roll: Roll,
    wanted: Mutex<Duration>,
}

impl Fitting {
    pub(super) fn new(inner: Arc<dyn RetryStrategy>, roll: Roll) -> Self {
        let wanted = Mutex::new(Duration::ZERO);
        Self {
            inner,
            roll,
            wanted,
        }
    }

    /// The delay that the next decision comes closest to.
    pub(super) fn want(&self, delay: Duration) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    fn with(&self, roll: u64, view: &RetryView<'_>) -> Decision {
        self.roll.set(roll);
        self.inner.decide(view)
    }
}

impl RetryStrategy for Fitting {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = [0, MOST].map(|roll| self.with(roll, view));
        let [Decision::After(low), Decision::After(high)] = ends else {
            let [first, _] = ends;
            return first;
        };
        let grows = low <= high;
        // The first roll whose delay is not before the wanted one in the direction of growth.
        let (mut from, mut to) = (0, MOST);
        while from < to {
            let middle = from + (to - from) / 2;
            let Decision::After(delay) = self.with(middle, view) else {
                break;
            };
            let is_past = if grows {
                delay >= wanted
            } else {
                delay <= wanted
            };
            if is_past {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        self.with(to, view)
    }

    fn max_attempts(&self) -> Option<u32> {
        self.inner.max_attempts()
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.inner.on_deadline()
    }

    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        self.inner.delay_asked(failure, asked, own)
    }

    fn holds(&self) -> bool {
        self.inner.holds()
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        self.inner.surface(held, new)
    }
}
