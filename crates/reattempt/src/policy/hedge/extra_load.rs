//! The delay that costs a given share of extra attempts.

mod account;
mod effort;
mod quantile;
#[cfg(test)]
mod tests;

use std::sync::{OnceLock, TryLockError};
use std::time::{Duration, Instant};

use super::bursts::{Bursts, SLOW};
use super::current::CurrentDelay;
use super::survival::{Curve, Past, Survival};
use super::window::Window;
use super::{AttemptEnd, EndedAttempt, HedgeAdmission, HedgeDelay, HedgeView, nanos_of};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use account::Account;
use effort::{CALM, CAUTIOUS, Effort};
use quantile::delay;

/// A share that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("extra load must be from 0.1 to 50 percent of the calls, got {0}")]
pub struct InvalidExtraLoad(f64);

/// Nothing is hedged before this number of attempts is known.
const FIRST: u64 = 64;
/// What was spent too much or too little is made up for within this many calls, over the root of
/// the share: the rarer hedges are, the more of it is chance.
const MAKES_UP: f32 = 2500.0;
/// Where independent hedges win more often than this, some attempts are much slower than most.
const OUTLIERS: f32 = 0.5;
/// More or fewer slow attempts than usual by this many standard deviations, squared.
const UNUSUAL: f32 = 16.0;

/// Hedges at a fixed cost: the share of extra attempts, in percent of the calls.
///
/// The delay is the one that this share of the route's calls exceeds, learned from every attempt:
/// one that was cancelled took at least as long as it ran. It begins after 64 attempts, carefully,
/// and follows a route whose slow calls become more or slower within some 2,000 calls. A
/// change that leaves as many slow as before, or that is small, is found within some 8,000 more.
///
/// - **Bounds** of hedges after the delay; an attempt that follows a failure is no part of them,
///   and only a throttle bounds it. Over some thousands of calls no more than the share is sent,
///   and in a second no more than the share and 1.5 percent of the calls (below some 50 calls a
///   second for each percent: or what chance adds, by one standard deviation). The limit of a
///   second never refuses four. As a second fills up, a call has to wait longer, up to some twice
///   the delay, so that what is left is for the slowest.
/// - **Backs off** where hedges win much less often than against independent servers, and where
///   slow attempts come in bursts of which none is much slower than the others: they wait for each
///   other in a queue, which a hedge makes longer. Then the share goes down to a 1,024th. It comes
///   back once neither is so, later each time.
///
/// Each one belongs to one route of one server: calls of another kind would blur it. It takes less
/// than 4 KiB.
///
/// ```
/// use std::sync::Arc;
/// use reattempt::HedgePolicy;
/// use reattempt::policy::ExtraLoad;
///
/// let two_percent = ExtraLoad::percent(2.0)?;
/// let policy = HedgePolicy::with_delay(2, Arc::new(two_percent));
/// assert!(policy.learns());
/// # Ok::<(), reattempt::policy::InvalidExtraLoad>(())
/// ```
#[derive(Debug)]
pub struct ExtraLoad {
    share: f32,
    times: Survival,
    delay: CurrentDelay,
    /// Attempts that take at least this long, in nanoseconds, are slow.
    slow_from: AtomicU64,
    bursts: Bursts,
    account: Account,
    won: AtomicU32,
    lost: AtomicU32,
    window: Window,
    base: OnceLock<Instant>,
    /// Never waited for: one that finds it taken goes on without.
    learned: Mutex<Learned>,
}

/// What estimates are made from, one at a time.
#[derive(Debug)]
struct Learned {
    past: Past,
    effort: Effort,
    /// How often a hedge would win against an independent server.
    wins_if_independent: f32,
    /// The number of attempts that the last estimate was made from, and of all counted until then.
    known: f32,
    estimated_at: u64,
    /// When the last estimate was made, and when the attempts that it was made from began to end,
    /// in nanoseconds.
    estimated: u64,
    since: u64,
    /// The share of the attempts that was slow, and the number of attempts when that was looked at.
    slow: f32,
    at: u64,
}

impl Learned {
    /// Whether another estimate is worth its cost although nothing seems to have changed: a third
    /// as many attempts as the last was made from are new. So it is made often after a change.
    fn is_overdue(&self, counted: u64) -> bool {
        3.0 * (counted - self.estimated_at) as f32 >= self.known
    }

    fn estimated(&mut self, curve: &Curve, changed: bool, counted: u64, now: u64) {
        if changed {
            // Only the attempts since the last estimate are known.
            self.since = self.estimated;
        }
        (self.known, self.estimated_at) = (curve.attempts(), counted);
        self.estimated = now;
    }

    /// Which part of the attempts that take longer than this delay is known: those that were sent
    /// within the last delay are still in flight, and faster ones of that time have ended.
    fn seen(&self, delay: f32, now: u64) -> f32 {
        let known_for = now.saturating_sub(self.since) as f32;
        (1.0 - delay / known_for).max(0.5)
    }

    /// Whether of the attempts since it was asked last few or many were slow, so that the route may
    /// have changed.
    fn is_unusual(&mut self, slow: f32, counted: u64) -> bool {
        let all = (counted - self.at) as f32;
        let usual = all * self.slow;
        self.slow = (3.0 * self.slow + slow / all) / 4.0;
        self.at = counted;
        (slow - usual).powi(2) > UNUSUAL * usual.max(1.0)
    }
}

impl ExtraLoad {
    /// From 0.1 to 50 percent of the calls.
    ///
    /// # Errors
    /// Any other number.
    pub fn percent(percent: f64) -> Result<Self, InvalidExtraLoad> {
        if !(0.1..=50.0).contains(&percent) {
            return Err(InvalidExtraLoad(percent));
        }
        let share = (percent / 100.0) as f32;
        Ok(Self {
            share,
            times: Survival::new(),
            delay: CurrentDelay::unknown(),
            slow_from: AtomicU64::new(u64::MAX),
            bursts: Bursts::new(),
            account: Account::new(share, CAUTIOUS),
            won: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            window: Window::new(),
            base: OnceLock::new(),
            learned: Mutex::new(Learned {
                past: Past::new(),
                effort: Effort::new(),
                wins_if_independent: 0.0,
                known: 0.0,
                estimated_at: 0,
                estimated: 0,
                since: 0,
                slow: SLOW,
                at: 0,
            }),
        })
    }

    /// The current delay; `None` while too little is known.
    #[must_use]
    pub fn current(&self) -> Option<Duration> {
        self.delay.get()
    }

    fn nanos(&self, now: Instant) -> u64 {
        let base = *self.base.get_or_init(|| now);
        nanos_of(now.saturating_duration_since(base))
    }

    #[cold]
    fn hedge_ended(&self, end: AttemptEnd) {
        let count = match end {
            AttemptEnd::Succeeded => &self.won,
            AttemptEnd::Lost | AttemptEnd::Failed => &self.lost,
            AttemptEnd::Dropped => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn mark(&self, counted: u64, attempt: &EndedAttempt) {
        let now = self.nanos(attempt.ended());
        self.window.tick(now, counted);
        if counted >= FIRST && Survival::is_due(counted) {
            let mut learned = match self.learned.try_lock() {
                Ok(learned) => learned,
                Err(TryLockError::Poisoned(learned)) => learned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            // Of two marks the later one may come first.
            if counted > learned.at {
                self.learn(&mut learned, counted, now);
            }
        }
    }

    fn learn(&self, learned: &mut Learned, counted: u64, now: u64) {
        let (won, lost) = (
            self.won.swap(0, Ordering::Relaxed),
            self.lost.swap(0, Ordering::Relaxed),
        );
        learned.effort.tried(won, lost, learned.wins_if_independent);
        let unusual = learned.is_unusual(self.bursts.lately() as f32, counted);
        let mut bursts = self.bursts.share();
        // Most often no curve is needed.
        let calm = bursts < CALM && !unusual && !learned.is_overdue(counted);
        if calm && !learned.effort.judge(bursts, || false) {
            return;
        }
        let (curve, changed) = self.times.estimate(&mut learned.past);
        learned.estimated(&curve, changed, counted, now);
        if changed && learned.effort.changed() {
            bursts = self.bursts.forget();
        }
        if !calm {
            let outliers = || curve.wins_after(delay(&curve, SLOW, 0.0)) > OUTLIERS;
            learned.effort.judge(bursts, outliers);
        }
        let effort = learned.effort.spent;
        let saved = self.account.settle(counted, effort, changed);
        let more = saved * self.share.sqrt() / MAKES_UP;
        let sought = |share| delay(&curve, share, more);
        let delay = sought(self.share * learned.seen(sought(self.share), now));
        learned.wins_if_independent = curve.wins_after(delay);
        // Whether slow attempts come together does not depend on how many are hedged.
        let from = curve.exceeded_by(SLOW) as u64;
        self.slow_from.store(from, Ordering::Relaxed);
        self.delay.set(delay as u64);
    }
}

impl HedgeDelay for ExtraLoad {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        self.current()
    }

    fn admit(&self, view: &HedgeView<'_>) -> HedgeAdmission {
        let counted = self.times.counted();
        let delay = self.current().map_or(1.0, |delay| nanos_of(delay) as f32);
        let waited = nanos_of(view.elapsed) as f32 / delay;
        let mut wait = view.elapsed / 8;
        if self.account.allows(counted) {
            let now = self.nanos(view.now);
            match self.window.take(now, counted, self.account.rate(), waited) {
                Ok(()) => {
                    self.account.spend();
                    return HedgeAdmission::Send;
                }
                Err(patience) => {
                    let more = ((patience - waited) * delay) as u64;
                    wait = wait.min(Duration::from_nanos(more));
                }
            }
        }
        // A call is asked about a few times while its duration doubles, never in a busy loop.
        HedgeAdmission::After(wait.max(Duration::from_millis(1)))
    }

    fn learns(&self) -> bool {
        true
    }

    #[inline]
    fn ended(&self, attempt: &EndedAttempt) {
        if attempt.number > 1 {
            return self.hedge_ended(attempt.end);
        }
        let nanos = attempt.nanos;
        let counted = self.times.count(nanos, attempt.end.is_own());
        if nanos >= self.slow_from.load(Ordering::Relaxed) {
            self.bursts.slow(counted);
        }
        if Survival::is_mark(counted) {
            self.mark(counted, attempt);
        }
    }
}
