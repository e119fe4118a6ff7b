//! A retry budget as tower, Linkerd, Envoy and the Gateway API have it: a share of the calls of a
//! time window, with a floor.

#[cfg(test)]
mod tests;
mod window;

use std::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::{RetryThrottle, Settled};
use crate::Failure;
use crate::policy::ticks::Ticks;
use crate::sync::Mutex;
use window::{Counts, Window};

/// One retry, in thousandths.
const RETRY: u64 = 1000;

/// A budget that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRatioBudget {
    /// The share is outside of 1..=1000 thousandths.
    #[error("a retry budget must be from 1 to 1000 thousandths of the calls, got {0}")]
    Ratio(u32),
    /// The window is outside of one second to one hour.
    #[error("the window of a retry budget must be from 1s to 1h, got {0:?}")]
    Window(Duration),
}

/// A retry budget fed by requests: retries are at most a share of the calls of the last seconds, or
/// a number per second if that is more.
///
/// **For migration only**, from tower's `TpsBudget`, Linkerd, Envoy and the Gateway API.
/// [A budget fed by requests does not recover from an overload](Self::WARNING): new calls come in
/// while the server fails, and each of them allows its share of a retry, so that an overloaded
/// server receives its calls and the share on top for as long as it is overloaded. A
/// [`TokenBucket`](super::TokenBucket) is fed by successes, and stops all retries then. No preset
/// uses this budget.
///
/// Each call counts once, when its first attempt [ends](RetryThrottle::first_failed). Each retry
/// and each hedge counts as one retry, when it is allowed: also a retry that is cancelled during
/// its delay, because with a refund calls that wait longer than the window could take back retries
/// of others. A retry is allowed while the retries of the window, with this one, are at most the
/// larger of `ratio × calls` and `min_per_second × window`.
///
/// | from | to |
/// | --- | --- |
/// | tower `TpsBudget::new(ttl, min_per_sec, percent)` | `RatioBudget::new(percent × 1000, min_per_sec, ttl)`. tower adds the floor to the share; here the larger counts |
/// | Linkerd `retryRatio`, `minRetriesPerSecond`, `ttl` | the same three |
/// | Gateway API `retryConstraint`: `budget.percent`, `budget.interval`, `minRetryRate` | `percent × 10`, the rate per second, `interval` |
/// | Envoy `retry_budget`: `budget_percent`, `min_retry_concurrency` | `budget_percent × 10`; Envoy counts what is in flight, so take the window for a typical call's time, at least one second |
///
/// The window consists of ten parts, and a part leaves it at once: it covers nine to ten tenths of
/// its length. Memory does not grow with the number of calls. The counts stand behind one lock,
/// which is held for a few additions and never while other code runs. Time is tokio's with feature
/// `tokio`, and the system's otherwise; [`with_clock`](Self::with_clock) sets another.
///
/// ```
/// use std::time::Duration;
/// use reattempt::throttle::{RatioBudget, RetryThrottle, Settled};
///
/// // A fifth of the calls of ten seconds, and no floor.
/// let budget = RatioBudget::new(200, 0, Duration::from_secs(10))?;
/// assert!(!budget.spend(None), "no calls yet");
/// (0..5).for_each(|_| budget.settled(Settled::Success));
/// assert!(budget.spend(None));
/// assert!(!budget.allows(None));
/// # Ok::<(), reattempt::throttle::InvalidRatioBudget>(())
/// ```
pub struct RatioBudget {
    state: Mutex<State>,
    /// From the start of the first window.
    ticks: Ticks,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    window: Window,
}

/// The numbers of a budget, checked.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Thousandths of a retry for each call.
    ratio: u64,
    /// The floor of a whole window, in thousandths of a retry.
    floor: u64,
    window: Duration,
}

impl Limits {
    fn checked(
        ratio: u32,
        min_per_second: u32,
        window: Duration,
    ) -> Result<Self, InvalidRatioBudget> {
        if ratio == 0 || ratio > 1000 {
            return Err(InvalidRatioBudget::Ratio(ratio));
        }
        let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
        if !allowed.contains(&window) {
            return Err(InvalidRatioBudget::Window(window));
        }
        // At most an hour, so that the number fits.
        let milliseconds = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            ratio: ratio.into(),
            floor: u64::from(min_per_second).saturating_mul(milliseconds),
            window,
        })
    }

    /// What is left, in thousandths of a retry.
    fn left(&self, counts: Counts) -> u64 {
        let share = counts.calls.saturating_mul(self.ratio);
        let allowed = share.max(self.floor);
        allowed.saturating_sub(counts.retries.saturating_mul(RETRY))
    }
}

impl RatioBudget {
    /// What is wrong with such a budget, in one sentence; `reattempt check` says it.
    pub const WARNING: &str = "a budget fed by requests does not recover from an overload: while every call fails, \
         each of them still allows its share of a retry";

    /// The floor and the window that tower's `TpsBudget` has by default: 10 retries per second, and
    /// 10 s. Its ratio is 200 thousandths.
    pub const DEFAULT_FLOOR: u32 = 10;
    /// See [`DEFAULT_FLOOR`](Self::DEFAULT_FLOOR).
    pub const DEFAULT_WINDOW: Duration = Duration::from_secs(10);

    /// At most `ratio` retries per thousand calls of the `window` (200 are 20 percent), and at
    /// least `min_per_second` retries per second, counted over the whole window: up to
    /// `min_per_second × window` at once.
    ///
    /// # Errors
    /// If `ratio` is not from 1 to 1000, or `window` not from one second to one hour.
    pub fn new(
        ratio: u32,
        min_per_second: u32,
        window: Duration,
    ) -> Result<Self, InvalidRatioBudget> {
        let limits = Limits::checked(ratio, min_per_second, window)?;
        Ok(Self {
            state: Mutex::new(State {
                limits,
                window: Window::new(limits.window),
            }),
            ticks: Ticks::new(),
        })
    }

    /// Reads the time from this clock, for simulators. To be set before the first call.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.ticks = Ticks::by(clock);
        self
    }

    /// Changes the numbers. The counts are kept; with another window they are scaled to its length,
    /// so that the rates are kept.
    ///
    /// # Errors
    /// As for [`new`](Self::new); then nothing changes.
    pub fn reconfigure(
        &self,
        ratio: u32,
        min_per_second: u32,
        window: Duration,
    ) -> Result<(), InvalidRatioBudget> {
        let limits = Limits::checked(ratio, min_per_second, window)?;
        self.with(|state, elapsed| {
            let old = std::mem::replace(&mut state.limits, limits).window;
            if old != window {
                state.window = state.window.scaled(old, window, elapsed);
            }
        });
        Ok(())
    }

    fn with<R>(&self, change: impl FnOnce(&mut State, Duration) -> R) -> R {
        // The clock may be the caller's own code: it is not read under the lock.
        let elapsed = self.ticks.elapsed();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.window.advance(elapsed);
        change(&mut state, elapsed)
    }

    fn call_seen(&self) {
        self.with(|state, _| state.window.add_call());
    }
}

impl RetryThrottle for RatioBudget {
    /// A success of a first attempt is a call; every other call comes by `first_failed`.
    fn settled(&self, outcome: Settled<'_>) {
        if outcome == Settled::Success {
            self.call_seen();
        }
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        self.with(|state, _| state.limits.left(state.window.counts()) >= RETRY)
    }

    fn spend(&self, _: Option<&Failure>) -> bool {
        self.with(|state, _| {
            let may = state.limits.left(state.window.counts()) >= RETRY;
            if may {
                state.window.add_retry();
            }
            may
        })
    }

    fn recovered(&self, _: Option<&Failure>) {}

    fn first_failed(&self) {
        self.call_seen();
    }

    /// What is left of the window's budget.
    fn milli_tokens(&self) -> Option<u64> {
        Some(self.with(|state, _| state.limits.left(state.window.counts())))
    }

    fn milli_headroom(&self) -> Option<u64> {
        let most_refused = RETRY - 1;
        Some(self.milli_tokens()?.saturating_sub(most_refused))
    }
}

impl fmt::Debug for RatioBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("RatioBudget")
            .field("limits", &state.limits)
            .field("counts", &state.window.counts())
            .finish_non_exhaustive()
    }
}
