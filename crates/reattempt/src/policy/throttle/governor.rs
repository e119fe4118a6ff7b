//! A throttle that prices failures by what they say about the server.

#[cfg(all(test, reattempt_loom))]
mod models;
mod refusal;
#[cfg(feature = "config")]
mod settings;
#[cfg(test)]
mod tests;
mod word;

use std::borrow::Cow;
use std::time::Instant;

use super::{RetryThrottle, Settled};
use crate::Failure;
use crate::failure::reason::ReasonClass;
use crate::policy::ticks::Ticks;
use crate::sync::{AtomicU64, Ordering};
pub use refusal::Refusal;
#[cfg(feature = "config")]
pub use settings::GovernorSettings;
pub use word::InvalidGovernor;
use word::{BALANCES, MILLI, Word};

/// Allows further attempts while they help, and stops them while the server is overloaded.
///
/// It keeps two balances, both full at the start, and both fed by first attempts that the server
/// answers (a success, or a final answer such as "not found"), with `ratio` of a token each:
///
/// - The **level**, of at most `2 × burst`. Each failure lowers it by the price of its
///   [class](Failure::class): 5 for an overload, 1 for a transient failure, 0.5 for one that never
///   reached the server. It is a measure of the server: at a ratio of 0.7 it rises while less than
///   about a third of the attempts fail in a transient way. Of overloads the budget pays for
///   nearly all retries up to about a twentieth, and for a third of them at an eighth.
/// - The **budget**, of at most `burst`. Each further attempt pays the price of the failure that it
///   follows, but at least one token; a hedge after its delay pays one.
///
/// A further attempt is allowed while the level is above half and the budget can pay. A **lone
/// failure**, a first attempt that fails when for half a second no other did, feeds the budget too
/// and allows one retry (or hedge) that follows a failure at any level, for one token. So with a
/// ratio of at least 500 (a half) a client with one call a second is never refused twice in a row,
/// and never locked out for longer than that second. There are at most two lone failures a second:
/// a client with many calls has almost none, and for it an outage means one attempt a call.
///
/// In every window, whatever fails, in which order, and whatever callers cancel: further attempts ≤
/// `ratio` × first attempts + `burst`. For every further attempt pays a token or more of the
/// budget, which holds at most `burst` when the window begins, and which each first attempt feeds
/// at most once. Attempts count when they are paid, first attempts when they end. A retry that was
/// paid and is cancelled during its delay is not refunded: with a refund an adversary could save
/// retries outside of a window and send them inside.
///
/// | what fails | [`TokenBucket`](super::TokenBucket) (100, 0.1) | `Governor::default()` |
/// | --- | --- | --- |
/// | each attempt fails with 25 %, four are allowed | refuses almost all retries | allows all: 99.6 % succeed |
/// | each attempt fails with 50 % or more | refuses | refuses |
/// | one call a second, in and after an outage | refuses for up to 500 s | allows seven retries in ten calls |
///
/// A success while both are full reads one word and writes nothing. Time is read after failures
/// alone: tokio's with feature `tokio`, and the system's otherwise;
/// [`with_clock`](Self::with_clock) sets another clock.
///
/// ```
/// use reattempt::throttle::{Governor, RetryThrottle, Settled};
/// use reattempt::{Failure, Stage, reason};
///
/// let governor = Governor::default();
/// let busy = Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response);
/// assert!(governor.allows(Some(&busy)));
/// (0..4).for_each(|_| governor.settled(Settled::Failure(&busy)));
/// let refusal = governor.refusal(Some(&busy)).unwrap();
/// assert_eq!(refusal.to_string(), "after overload: the level of 20 is not above 20");
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct Governor {
    /// Both balances and the configuration, so that they change together.
    word: AtomicU64,
    /// When the latest first attempt failed, in milliseconds from 1, and in the lowest bit whether
    /// a lone failure has left a permit.
    lone: AtomicU64,
    ticks: Ticks,
}

/// What a failure of this class lowers the level by, and what a further attempt after it pays if
/// that is more than a token; in thousandths.
const fn price(class: ReasonClass) -> u32 {
    match class {
        ReasonClass::Overload => 5 * MILLI,
        ReasonClass::Transient => MILLI,
        ReasonClass::Unsent | ReasonClass::Request => MILLI / 2,
    }
}

/// What a further attempt after this failure pays of the budget, in thousandths. One token at
/// least, because the bound counts attempts.
fn attempt_price(failure: Option<&Failure>) -> u32 {
    failure.map_or(MILLI, |failure| price(failure.class()).max(MILLI))
}

/// The shortest time without a failed first attempt before one that is a lone failure, in
/// milliseconds.
const LONE_AFTER: u64 = 500;

/// A burst of 20 attempts, and 0.7 for each success.
impl Default for Governor {
    fn default() -> Self {
        Self::of(Word::full(Self::DEFAULT_BURST, Self::DEFAULT_RATIO))
    }
}

impl Governor {
    /// The burst of [`Governor::default`].
    pub const DEFAULT_BURST: u32 = 20;
    /// The ratio of [`Governor::default`]: 700 thousandths.
    pub const DEFAULT_RATIO: u32 = 700;

    fn of(word: Word) -> Self {
        Self {
            word: AtomicU64::new(word.pack()),
            lone: AtomicU64::new(0),
            ticks: Ticks::new(),
        }
    }

    /// A governor that allows fewer than `burst` further attempts at once (after overloads fewer
    /// than a fifth of them), beside those after lone failures, and `ratio` thousandths of one for
    /// each first attempt that succeeds. With a burst below 6 one overload closes it, but for lone
    /// failures. With a ratio below 500 a client with one call a second may be refused for longer
    /// than a second.
    ///
    /// # Errors
    /// If `burst` is not from 1 to 500, or `ratio` not from 1 to 1000.
    pub fn new(burst: u32, ratio: u32) -> Result<Self, InvalidGovernor> {
        Word::checked(burst, ratio).map(Self::of)
    }

    /// Reads the time from this clock, for simulators. To be set before the first call.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.ticks = Ticks::by(clock);
        self
    }

    /// Changes the configuration and keeps the fill fractions.
    ///
    /// # Errors
    /// As for [`new`](Self::new); then nothing changes.
    pub fn reconfigure(&self, burst: u32, ratio: u32) -> Result<(), InvalidGovernor> {
        let new = Word::checked(burst, ratio)?;
        self.update(|old| {
            let most = Word::full(old.burst, old.ratio);
            let scaled =
                |fill, of, most| (u64::from(fill) * u64::from(most) / u64::from(of)) as u32;
            Some(Word {
                level: scaled(old.level, most.level, new.level),
                budget: scaled(old.budget, most.budget, new.budget),
                ..new
            })
        });
        Ok(())
    }

    /// Why a further attempt after this failure would be refused now; `None` if it is allowed.
    #[must_use]
    pub fn refusal(&self, failure: Option<&Failure>) -> Option<Refusal> {
        let word = self.load();
        (!self.would_pay(word, failure)).then(|| Refusal {
            class: failure.map(Failure::class),
            milli_level: word.level,
            milli_above: word.half(),
            milli_budget: word.budget,
            milli_price: attempt_price(failure),
        })
    }

    /// The level as a share of its maximum, from 0 to 1; no further attempt is allowed up to 0.5.
    #[must_use]
    pub fn level(&self) -> f64 {
        let word = self.load();
        f64::from(word.level) / f64::from(2 * word.half())
    }

    #[inline]
    fn load(&self) -> Word {
        Word::unpack(self.word.load(Ordering::Relaxed))
    }

    /// False if `change` refuses.
    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> bool {
        // Relaxed: the word guards no other memory.
        let relaxed = Ordering::Relaxed;
        let updated = self.word.fetch_update(relaxed, relaxed, |word| {
            change(Word::unpack(word)).map(Word::pack)
        });
        updated.is_ok()
    }

    fn would_pay(&self, word: Word, failure: Option<&Failure>) -> bool {
        let may_pass = || failure.is_some() && self.lone.load(Ordering::Relaxed) & 1 == 1;
        word.pay(attempt_price(failure)).is_some() || (word.pay_lone().is_some() && may_pass())
    }

    /// Uses up the permit that a lone failure left.
    fn take_permit(&self) -> bool {
        self.lone.fetch_and(!1, Ordering::Relaxed) & 1 == 1
    }
}

impl RetryThrottle for Governor {
    #[inline]
    fn settled(&self, outcome: Settled<'_>) {
        match outcome {
            Settled::Success => {
                let word = self.word.load(Ordering::Relaxed);
                let Word { burst, ratio, .. } = Word::unpack(word);
                // Usually both are full and nothing is written.
                if (word ^ Word::full(burst, ratio).pack()) & BALANCES != 0 {
                    self.update(|word| Some(word.earn()));
                }
            }
            Settled::Failure(failure) => {
                let price = price(failure.class());
                self.update(|word| {
                    let level = word.level.saturating_sub(price);
                    Some(Word { level, ..word })
                });
            }
        }
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        self.would_pay(self.load(), failure)
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        let price = attempt_price(failure);
        if self.update(|word| word.pay(price)) {
            return true;
        }
        let lone = failure.is_some() && self.load().pay_lone().is_some() && self.take_permit();
        let paid = lone && self.update(Word::pay_lone);
        if lone && !paid {
            // Another attempt has taken its price meanwhile.
            self.lone.fetch_or(1, Ordering::Relaxed);
        }
        paid
    }

    fn refusal(&self, failure: Option<&Failure>) -> Option<Cow<'static, str>> {
        Some(Self::refusal(self, failure)?.to_string().into())
    }

    /// Adds nothing: a call may earn only by its first attempt.
    fn recovered(&self, _: Option<&Failure>) {}

    fn first_answered(&self) {
        self.settled(Settled::Success);
    }

    fn first_failed(&self) {
        let passed = u64::try_from(self.ticks.elapsed().as_millis()).unwrap_or(u64::MAX);
        // One more, because zero is "none so far".
        let now = passed.saturating_add(1).min(u64::MAX >> 1);
        let is_lone = |before| before == 0 || now >= before + LONE_AFTER;
        let relaxed = Ordering::Relaxed;
        let lone = self.lone.fetch_update(relaxed, relaxed, |lone| {
            let (before, permit) = (lone >> 1, lone & 1);
            Some(now.max(before) << 1 | permit | u64::from(is_lone(before)))
        });
        if lone.is_ok_and(|lone| is_lone(lone >> 1)) {
            self.update(|word| Some(word.earn_budget()));
        }
    }

    /// How many further attempts after transient failures could be paid now, of which the level
    /// allows as many as it is above half.
    fn milli_tokens(&self) -> Option<u64> {
        let word = self.load();
        let above = word.level.saturating_sub(word.half());
        Some(u64::from(above.min(word.budget)))
    }
    /// Zero if a retry after an overload would be refused, the dearest one. With a burst below 6
    /// none ever follows an overload: then after any other failure.
    fn milli_headroom(&self) -> Option<u64> {
        let word = self.load();
        let dearest = price(ReasonClass::Overload);
        let dearest = if dearest >= word.half() {
            MILLI
        } else {
            dearest
        };
        let above = word.level.saturating_sub(word.half());
        let payable = word.budget.saturating_sub(dearest - 1);
        Some(u64::from(above.min(payable)))
    }
}
