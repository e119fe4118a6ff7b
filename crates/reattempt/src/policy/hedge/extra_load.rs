//! The delay that costs a given share of extra attempts.

#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::bursts::Bursts;
use super::survival::{Curve, Survival};
use super::window::Window;
use super::{AttemptEnd, EndedAttempt, HedgeAdmission, HedgeDelay, HedgeView};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A share that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("extra load must be from 0.1 to 50 percent of the calls, got {0}")]
pub struct InvalidExtraLoad(f64);

/// Nothing is hedged before this number of attempts is known.
const FIRST: u64 = 64;
/// The part of the share that the delay aims at. The rest is room for chance: a hedge that the
/// bounds hold back comes late.
const AIM: f32 = 0.99;
/// What was spent too much or too little is made up for within this many calls.
const MAKES_UP: f32 = 16_384.0;
/// More than this many calls' share is never saved, nor spent in advance.
const AHEAD: f32 = 4096.0;
/// Hedges of which it is known whether they won, before the effort changes.
const TRIALS: u32 = 8;
/// The effort at which it begins, and the least with which it still tries.
const CAUTIOUS: f32 = 0.25;
const LEAST: f32 = 1.0 / 1024.0;
/// Below this effort trials would take too long.
const TRIES: f32 = 1.0 / 32.0;
/// A hedge pays if it wins at least this part of how often it would win against an independent
/// server. In a queue that all attempts wait in, it wins hardly ever and makes the queue longer.
const PAYS: f32 = 0.6;
const FAILS: f32 = 0.4;
/// Slow attempts come in bursts if this part of them follows another closely, and do not below the
/// second: of independent ones 0.22 do.
const QUEUE: f32 = 0.34;
const NO_QUEUE: f32 = 0.29;
const CALM: f32 = 0.26;
/// Where independent hedges win more often than this, some attempts are much slower than most.
const OUTLIERS: f32 = 0.5;
/// The most estimates that it waits before more is spent.
const MOST_PATIENCE: u32 = 64;
/// The share of attempts that are slow, at least.
const SLOW: f32 = 0.05;
/// Over a stretch of delays that the same attempts exceed, the shortest is taken, and the share
/// bounds how many of them are hedged.
const FLAT: f32 = 1.25;
const STRETCH: f32 = 0.75;

/// Hedges at a fixed cost: the share of extra attempts, in percent of the calls.
///
/// The delay is the one that this share of the route's calls exceeds, learned from every attempt:
/// one that was cancelled took at least as long as it ran. It begins after 64 attempts, carefully,
/// and follows a route that changes within some 2,000 calls.
///
/// - **Bounds.** Over some thousands of calls no more than the share is sent. In a second in which
///   more calls are slow than chance explains, no more than the share and 1.2 percent of the calls;
///   in any other no more than chance adds to the share (three standard deviations, or 1.5 percent
///   if that is more). Four hedges a second are always allowed. A hedge that is held back is sent
///   later, if the call still waits then.
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
    window: Window,
    base: OnceLock<Instant>,
    /// Odd while an estimate is made; the fields up to `delay` are written only then.
    estimates: AtomicU64,
    /// The part of the share that is spent, as an `f32`.
    effort: AtomicU32,
    /// The effort while attempts do not wait for each other, as an `f32`.
    level: AtomicU32,
    /// The estimates since they began to wait for each other.
    queued: AtomicU32,
    /// The estimates since they no longer do, and how many it takes until more is spent: twice as
    /// many each time.
    calm: AtomicU32,
    patience: AtomicU32,
    /// How often a hedge would win against an independent server, as an `f32`.
    wins_if_independent: AtomicU32,
    /// What may be spent up to `earned_at` attempts, in thousandths of a hedge.
    earned: AtomicU64,
    earned_at: AtomicU64,
    /// In nanoseconds; 0 while too little is known.
    delay: AtomicU64,
    sent: AtomicU64,
    won: AtomicU32,
    lost: AtomicU32,
    /// Attempts that take longer than this, in nanoseconds, are slow.
    slow_from: AtomicU64,
    bursts: Bursts,
}

fn load(word: &AtomicU32) -> f32 {
    f32::from_bits(word.load(Ordering::Relaxed))
}

fn store(word: &AtomicU32, value: f32) {
    word.store(value.to_bits(), Ordering::Relaxed);
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
        Ok(Self {
            share: (percent / 100.0) as f32,
            times: Survival::new(),
            window: Window::new(),
            base: OnceLock::new(),
            estimates: AtomicU64::new(0),
            effort: AtomicU32::new(CAUTIOUS.to_bits()),
            level: AtomicU32::new(CAUTIOUS.to_bits()),
            queued: AtomicU32::new(0),
            calm: AtomicU32::new(0),
            patience: AtomicU32::new(1),
            wins_if_independent: AtomicU32::new(0),
            earned: AtomicU64::new(0),
            earned_at: AtomicU64::new(0),
            delay: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            won: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            slow_from: AtomicU64::new(u64::MAX),
            bursts: Bursts::new(),
        })
    }

    /// The current delay; `None` while too little is known.
    #[must_use]
    pub fn current(&self) -> Option<Duration> {
        let nanos = self.delay.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    fn nanos(&self, now: Instant) -> u64 {
        let base = *self.base.get_or_init(|| now);
        u64::try_from(now.saturating_duration_since(base).as_nanos()).unwrap_or(u64::MAX)
    }

    /// What may be spent in all, up to this many attempts, in hedges.
    fn earned(&self, counted: u64) -> f64 {
        let since = counted.saturating_sub(self.earned_at.load(Ordering::Relaxed));
        let rate = f64::from(self.share * AIM * load(&self.effort));
        self.earned.load(Ordering::Relaxed) as f64 / 1000.0 + since as f64 * rate
    }

    #[cold]
    #[inline(never)]
    fn mark(&self, counted: u64, now: Instant) {
        self.window.tick(self.nanos(now), counted);
        if counted >= FIRST && Survival::is_due(counted) && super::only_one(&self.estimates) {
            self.learn(counted);
            super::next_one(&self.estimates);
        }
    }

    fn learn(&self, counted: u64) {
        let (curve, changed) = self.times.estimate();
        let earned = self.earned(counted);
        let sent = self.sent.load(Ordering::Relaxed) as f64;
        let unspent = earned - sent >= f64::from(ahead(self.share * AIM * load(&self.effort)));
        if changed && self.patience.load(Ordering::Relaxed) == 2 {
            // The only burst so far was the change: it was no queue.
            self.patience.store(3, Ordering::Relaxed);
            store(&self.level, (2.0 * load(&self.level)).min(1.0));
            self.bursts.forget();
        }
        let effort = self.judge(&curve, unspent);
        let share = self.share * AIM * effort;
        let ahead = ahead(share);
        // After a change nothing is made up for.
        let most = if changed { 0.0 } else { ahead };
        let saved = ((earned - sent) as f32).clamp(-ahead - 1.0, most);
        let earned = (sent + f64::from(saved)).max(0.0);
        self.earned
            .store((earned * 1000.0) as u64, Ordering::Relaxed);
        self.earned_at.store(counted, Ordering::Relaxed);
        let delay = delay(&curve, share + saved / MAKES_UP);
        store(&self.wins_if_independent, curve.wins_after(delay));
        let slow = share.max(SLOW);
        self.bursts.of(slow);
        let from = curve.exceeded_by(slow) as u64;
        self.slow_from.store(from, Ordering::Relaxed);
        self.delay.store((delay as u64).max(1), Ordering::Relaxed);
    }

    /// How much is spent, by whether the share stays unspent, whether slow attempts
    /// come in bursts, and how often hedges won.
    fn judge(&self, curve: &Curve, unspent: bool) -> f32 {
        let mut effort = load(&self.effort);
        let bursts = self.bursts.share();
        // In a queue the slow attempts are those that waited: hardly any is much slower than the
        // others, and they come together. Where some are much slower, a hedge pays also in bursts.
        let outliers = curve.wins_after(delay(curve, SLOW)) > OUTLIERS;
        let queue = bursts > QUEUE && !outliers;
        let calm = outliers || bursts < NO_QUEUE;
        let won = self.won.load(Ordering::Relaxed);
        let trials = won + self.lost.load(Ordering::Relaxed);
        let tried = trials >= TRIALS;
        let expected = load(&self.wins_if_independent) * trials as f32;
        let surplus = |part: f32| won as f32 - part * expected + 0.5 * expected.sqrt();
        let mut level = load(&self.level);
        if queue || (tried && surplus(FAILS) < 0.0) {
            // A passing burst, as when a route changes, costs half; one that stays costs all.
            let queued = self.queued.fetch_add(1, Ordering::Relaxed);
            if queued % 4 == 0 {
                level /= 2.0;
            }
            if queued == 0 {
                let patience = self.patience.load(Ordering::Relaxed);
                self.patience
                    .store((2 * patience).min(MOST_PATIENCE), Ordering::Relaxed);
            }
            self.calm.store(0, Ordering::Relaxed);
            effort /= 4.0;
        } else if calm
            && self.calm.fetch_add(1, Ordering::Relaxed) >= self.patience.load(Ordering::Relaxed)
        {
            self.queued.store(0, Ordering::Relaxed);
            let pays = unspent || tried && surplus(PAYS) >= 0.0;
            // With so little effort no trial would ever be complete.
            let tries = level < TRIES && (outliers || bursts < CALM);
            if effort < level {
                effort *= 4.0;
            } else if pays || tries {
                level *= 2.0;
                effort = level;
            }
        }
        level = level.clamp(LEAST, 1.0);
        effort = effort.clamp(LEAST, level);
        store(&self.level, level);
        if tried {
            self.won.store(0, Ordering::Relaxed);
            self.lost.store(0, Ordering::Relaxed);
        }
        store(&self.effort, effort);
        effort
    }
}

/// How many hedges are saved, or spent in advance, at most.
fn ahead(share: f32) -> f32 {
    (AHEAD * share).max(1.0)
}

/// The delay that this share of the attempts exceeds.
fn delay(curve: &Curve, share: f32) -> f32 {
    let exact = curve.exceeded_by(share);
    let early = curve.exceeded_by((share * FLAT).min(0.9));
    if early < STRETCH * exact {
        early
    } else {
        exact
    }
}

impl HedgeDelay for ExtraLoad {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        self.current()
    }

    fn admit(&self, view: &HedgeView<'_>) -> HedgeAdmission {
        let counted = self.times.counted();
        let sent = self.sent.load(Ordering::Relaxed) as f64;
        let ahead = ahead(self.share * AIM * load(&self.effort));
        if sent < self.earned(counted) + f64::from(ahead)
            && self
                .window
                .take(self.nanos(view.now), counted, self.share, view.again)
        {
            self.sent.fetch_add(1, Ordering::Relaxed);
            return HedgeAdmission::Send;
        }
        // A call is asked about a few times while its duration doubles, never in a busy loop.
        HedgeAdmission::After((view.elapsed / 8).max(Duration::from_millis(1)))
    }

    fn learns(&self) -> bool {
        true
    }

    #[inline]
    fn ended(&self, attempt: &EndedAttempt) {
        if attempt.number > 1 {
            match attempt.end {
                AttemptEnd::Succeeded => self.won.fetch_add(1, Ordering::Relaxed),
                AttemptEnd::Lost | AttemptEnd::Failed => self.lost.fetch_add(1, Ordering::Relaxed),
                AttemptEnd::Dropped => return,
            };
            return;
        }
        if attempt.nanos >= self.slow_from.load(Ordering::Relaxed) {
            self.bursts.slow(self.times.counted());
        }
        let mark = match attempt.end {
            AttemptEnd::Succeeded | AttemptEnd::Failed => self.times.ended(attempt.nanos),
            AttemptEnd::Lost | AttemptEnd::Dropped => self.times.cut(attempt.nanos),
        };
        if let Some(counted) = mark {
            self.mark(counted, attempt.ended);
        }
    }
}
