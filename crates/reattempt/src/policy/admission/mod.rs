//! Which calls are sent at all: Google SRE's adaptive throttling of first attempts.

mod accepted;
mod criticality;
#[cfg(all(test, reattempt_loom))]
mod models;
mod refused;
#[cfg(feature = "config")]
mod settings;
#[cfg(test)]
mod tests;
mod window;

use std::time::{Duration, Instant};

use super::backoff::Randomness;
use super::ticks::Ticks;
#[cfg(feature = "tokio")]
use crate::Failure;
use crate::RetryReason;
use crate::sync::{AtomicU64, Ordering};
#[cfg(feature = "tokio")]
pub(crate) use accepted::is_accepted;
pub use accepted::was_accepted;
pub use criticality::Criticality;
pub use refused::Refused;
#[cfg(feature = "config")]
pub use settings::AdmissionSettings;
use window::Window;

/// Settings that are out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAdmission {
    /// The multiplier is outside of 1100..=100,000 thousandths.
    #[error("the multiplier of admission must be from 1100 to 100000 thousandths, got {0}")]
    Multiplier(u32),
    /// The window is outside of one second to ten minutes.
    #[error("the window of admission must be from 1s to 600s, got {0:?}")]
    Window(Duration),
}

/// Adaptive throttling of one server's first attempts (Google SRE, Handling Overload, Client-Side
/// Throttling).
///
/// A call is refused with the chance `max(0, (requests - K × accepts) / (requests + 1))` over the
/// calls of the last seconds: while the server accepts at least one in `K` (2 by default), nothing
/// is refused; a server that is overloaded receives about `K` times what it can accept, and one
/// that is down about one call in fifty of many, because the chance is at most 0.98: so it is found
/// when it is back. Up to three calls that were not accepted refuse nothing: they say too little of
/// a server that has few calls. What has to be refused is taken from the lowest [`Criticality`]
/// first.
///
/// A call counts once, when its response began, it failed or it was refused. It was accepted if the
/// server answered it and did not say that it is overloaded ([`was_accepted`]), also not at the end
/// of its response: an error is an answer too. One that its caller dropped does not count, nor one
/// whose deadline passed before it was sent, nor one that a layer below answered (the fallback of
/// an open circuit). Of each criticality at least one call a second is
/// admitted, so that a recovery is seen.
///
/// The window has ten parts, each four words: nothing locks, and memory does not grow. Time is
/// tokio's with feature `tokio`, and the system's otherwise; [`with_clock`](Self::with_clock) sets
/// another clock.
///
/// ```
/// use reattempt::admission::{Admission, Criticality};
///
/// let admission = Admission::default();
/// let admit = || admission.admit(Criticality::CRITICAL);
/// (0..100).for_each(|_| admission.ended(Criticality::CRITICAL, false));
/// assert!(admit().is_ok(), "one call a second, to see whether the server is back");
/// let refused = (0..1000).filter(|_| admit().is_err()).count();
/// assert!(refused > 950, "{refused}");
/// ```
#[derive(Debug)]
pub struct Admission {
    /// In thousandths; 0 is off.
    multiplier: AtomicU64,
    window: Window,
    /// By criticality, so that a low one does not use up the call of a high one: when the latest
    /// call was admitted that the chance refused, in milliseconds from 1.
    probed: [AtomicU64; window::KINDS],
    /// Last failures of calls that do not count.
    ignored: Vec<RetryReason>,
    randomness: Randomness,
    ticks: Ticks,
}

/// A multiplier of 2 and a window of five seconds.
impl Default for Admission {
    fn default() -> Self {
        Self::of(Self::DEFAULT_MULTIPLIER, Self::DEFAULT_WINDOW)
    }
}

/// Calls of the window that were not accepted, and refuse nothing.
const SPARED: u64 = 3;

/// The most that are refused by chance, of many calls: a server that accepts none gets one in
/// fifty.
const MOST_REFUSED: f64 = 0.98;

/// What is sent beyond what the server accepted is what shows that it accepts more again: with 1 an
/// outage would be remembered for minutes, because refused calls are requests too.
const LEAST_MULTIPLIER: u32 = 1100;

/// While calls are refused, one is admitted after this many milliseconds without any: less than a
/// second, so that every call of a caller with one a second is sent, also one that is a little
/// early.
const PROBE_AFTER: u64 = 900;

impl Admission {
    /// `K` of the formula, in thousandths: 2.
    pub const DEFAULT_MULTIPLIER: u32 = 2000;
    /// Five seconds. Google's own is two minutes, which remembers an overload for as long.
    pub const DEFAULT_WINDOW: Duration = Duration::from_secs(5);

    fn of(multiplier: u32, window: Duration) -> Self {
        Self {
            multiplier: AtomicU64::new(multiplier.into()),
            window: Window::new(window),
            probed: Default::default(),
            ignored: Vec::new(),
            randomness: Randomness::default(),
            ticks: Ticks::new(),
        }
    }

    /// Admission with this `K`, in thousandths (2000 is 2), over this window.
    ///
    /// # Errors
    /// If `multiplier` is not from 1100 to 100,000, or `window` not from one second to ten minutes.
    pub fn new(multiplier: u32, window: Duration) -> Result<Self, InvalidAdmission> {
        check(multiplier, window)?;
        Ok(Self::of(multiplier, window))
    }

    /// Admission that refuses nothing and counts nothing until it is
    /// [configured](Self::reconfigure).
    #[must_use]
    pub fn off() -> Self {
        Self::of(0, Self::DEFAULT_WINDOW)
    }

    /// Draws the chance of each refusal from here.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Does not count a call whose last failure has this reason, besides those of earlier calls of
    /// this method; by default all count. For a rate limit of the caller's own key, which is no
    /// overload of the server.
    #[must_use]
    pub fn ignore(mut self, reason: RetryReason) -> Self {
        self.ignored.push(reason);
        self
    }

    /// Reads the time from this clock, for simulators. To be set before the first call.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.ticks = Ticks::by(clock);
        self
    }

    /// Changes the settings. The counts are kept, unless the window has another length.
    ///
    /// # Errors
    /// As for [`new`](Self::new); then nothing changes.
    pub fn reconfigure(&self, multiplier: u32, window: Duration) -> Result<(), InvalidAdmission> {
        check(multiplier, window)?;
        self.window.resize(window);
        self.multiplier.store(multiplier.into(), Ordering::Relaxed);
        Ok(())
    }

    /// Another one with the same settings, for another server: its counts are its own, and later
    /// changes of one do not change the other (see [`follow`](Self::follow)).
    #[must_use]
    pub fn another(&self) -> Self {
        let another = Self {
            ignored: self.ignored.clone(),
            randomness: self.randomness.clone(),
            ticks: self.ticks.clone(),
            ..Self::off()
        };
        another.follow(self);
        another
    }

    /// Takes over the settings of that one, also that it is off. The counts are kept, unless the
    /// window has another length.
    pub fn follow(&self, other: &Self) {
        self.window.resize_as(&other.window);
        let multiplier = other.multiplier.load(Ordering::Relaxed);
        self.multiplier.store(multiplier, Ordering::Relaxed);
    }

    /// Refuses nothing and counts nothing from now on.
    pub fn switch_off(&self) {
        self.multiplier.store(0, Ordering::Relaxed);
    }

    /// True if it is [switched off](Self::switch_off).
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.multiplier.load(Ordering::Relaxed) == 0
    }

    /// Whether a call may be sent now. A refused one is counted; for one that is admitted call
    /// [`ended`](Self::ended).
    ///
    /// # Errors
    /// If it may not.
    pub fn admit(&self, criticality: Criticality) -> Result<(), Refused> {
        let multiplier = self.multiplier.load(Ordering::Relaxed);
        if multiplier == 0 || self.window.is_untroubled() {
            return Ok(());
        }
        let elapsed = self.ticks.elapsed();
        if self.window.is_calm(elapsed) {
            return Ok(());
        }
        let counts = self.window.counts(elapsed);
        let accepted: u64 = counts.accepts.iter().sum();
        let requests: u64 = counts.requests.iter().sum();
        if requests <= accepted.saturating_add(SPARED) {
            return Ok(());
        }
        // Both fit in 27 bits, and the multiplier in 17.
        let surplus = (requests * 1000).saturating_sub(accepted * multiplier);
        let at = usize::from(criticality.number());
        let lower: u64 = counts.requests[..at].iter().sum();
        // What the lower ones do not cover is taken from this one.
        let surplus = surplus.saturating_sub(lower * 1000);
        if surplus == 0 {
            return Ok(());
        }
        let chance = surplus as f64 / 1000.0 / (counts.requests[at] + 1) as f64;
        // A server that is back is found by a share of the calls, however many there are.
        let chance = chance.min(MOST_REFUSED);
        if self.randomness.roll() >= chance || self.is_probe(elapsed, criticality) {
            return Ok(());
        }
        self.window.add(elapsed, criticality, false);
        Err(Refused {
            requests,
            accepted,
            criticality,
        })
    }

    /// A call that was admitted ended; whether the server accepted it.
    pub fn ended(&self, criticality: Criticality, accepted: bool) {
        if !self.is_off() {
            self.window.add(self.ticks.elapsed(), criticality, accepted);
        }
    }

    /// True if a call does not count whose last failure is this one.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_ignored(&self, last: &Failure) -> bool {
        self.ignored.contains(&last.reason)
    }

    /// The time of a count.
    #[cfg(feature = "tokio")]
    pub(crate) fn elapsed(&self) -> Duration {
        self.ticks.elapsed()
    }

    /// A call that was counted as accepted then, because its response had begun, ended in an
    /// overload.
    #[cfg(feature = "tokio")]
    pub(crate) fn was_not_accepted(&self, counted: Duration, criticality: Criticality) {
        if !self.is_off() {
            let now = self.ticks.elapsed();
            self.window.take_back(counted, now, criticality);
        }
    }

    /// The requests and accepts of the window.
    #[cfg(all(test, feature = "tokio"))]
    pub(crate) fn seen(&self) -> (u64, u64) {
        let counts = self.window.counts(self.ticks.elapsed());
        (counts.requests.iter().sum(), counts.accepts.iter().sum())
    }

    /// True for one call a second of this criticality.
    fn is_probe(&self, elapsed: Duration, criticality: Criticality) -> bool {
        let passed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        // One more, because zero is "none so far".
        let now = passed.saturating_add(1);
        let relaxed = Ordering::Relaxed;
        let probed = &self.probed[usize::from(criticality.number())];
        let took = probed.fetch_update(relaxed, relaxed, |before| {
            let due = before == 0 || now >= before.saturating_add(PROBE_AFTER);
            due.then_some(now)
        });
        took.is_ok()
    }
}

fn check(multiplier: u32, window: Duration) -> Result<(), InvalidAdmission> {
    if !(LEAST_MULTIPLIER..=100_000).contains(&multiplier) {
        return Err(InvalidAdmission::Multiplier(multiplier));
    }
    if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&window) {
        return Err(InvalidAdmission::Window(window));
    }
    Ok(())
}
