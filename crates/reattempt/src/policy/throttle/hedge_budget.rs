//! A budget of hedges: at most a share of the calls.

#[cfg(all(test, reattempt_loom))]
mod models;

use super::{RetryThrottle, Settled};
use crate::Failure;
use crate::sync::{AtomicU64, Ordering};

/// The cost of one hedge, in thousandths of a token.
const HEDGE: u32 = 1000;
/// The maximum fill: ten hedges.
const MOST: u32 = 10 * HEDGE;
/// The initial fill: one hedge.
const FIRST: u32 = HEDGE;

/// A share that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hedge budget must be from 1 to 1000 thousandths of the calls, got {0}")]
pub struct InvalidHedgeBudget(u32);

/// Allows at most a fixed number of hedges per hundred settled attempts.
///
/// Each settled attempt, whatever its outcome, and each first attempt with a final answer such as
/// "not found" earns its share of a token; each hedge costs one.
/// The budget starts with one token and holds at most ten, so after `n` settled attempts at most
/// `1 + share · n` hedges were sent, and never more than ten at once after a quiet period. Losers
/// of a hedged call are dropped unsettled and earn nothing.
///
/// A [`TokenBucket`](super::TokenBucket) refuses when attempts fail; this budget also limits hedges
/// when attempts are only slow, which is when hedging adds load. [`Both`](super::Both) combines the
/// two. Counts whole thousandths in one atomic word.
///
/// ```
/// use reattempt::throttle::{HedgeBudget, RetryThrottle, Settled};
///
/// let budget = HedgeBudget::of_thousandths(100)?; // a tenth of the calls
/// assert!(budget.spend(None), "the budget starts with one token");
/// assert!(!budget.allows(None));
/// (0..10).for_each(|_| budget.settled(Settled::Success));
/// assert!(budget.allows(None));
/// # Ok::<(), reattempt::throttle::InvalidHedgeBudget>(())
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct HedgeBudget {
    /// Milli-tokens in the low half, the earnings of one settled attempt in the high half, so that
    /// they change together.
    word: AtomicU64,
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word & 0xffff_ffff) as u32, (word >> 32) as u32)
}

fn pack(fill: u32, earns: u32) -> u64 {
    u64::from(fill) | (u64::from(earns) << 32)
}

const fn checked(thousandths: u32) -> Result<u32, InvalidHedgeBudget> {
    if thousandths == 0 || thousandths > 1000 {
        return Err(InvalidHedgeBudget(thousandths));
    }
    // A token is a thousand milli-tokens, so a thousandth of it is one.
    Ok(thousandths)
}

impl HedgeBudget {
    /// The number of hedges per thousand settled attempts (100 are 10 percent), from 1 to 1000.
    pub fn of_thousandths(thousandths: u32) -> Result<Self, InvalidHedgeBudget> {
        Ok(Self {
            word: AtomicU64::new(pack(FIRST, checked(thousandths)?)),
        })
    }

    /// Changes the share and keeps the current fill.
    pub fn reconfigure(&self, thousandths: u32) -> Result<(), InvalidHedgeBudget> {
        let earns = checked(thousandths)?;
        self.update(|fill, _| Some((fill, earns)));
        Ok(())
    }

    fn update(&self, change: impl Fn(u32, u32) -> Option<(u32, u32)>) -> bool {
        // Relaxed: the word guards no other memory.
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let (fill, earns) = unpack(word);
                change(fill, earns).map(|(fill, earns)| pack(fill, earns))
            })
            .is_ok()
    }
}

impl RetryThrottle for HedgeBudget {
    fn settled(&self, _: Settled<'_>) {
        // A full budget is only read, so calls without hedges do not contend for the word.
        self.update(|fill, earns| {
            let next = (fill + earns).min(MOST);
            (next != fill).then_some((next, earns))
        });
    }

    /// A call whose answer is "not found" is one of the calls of which hedges are a share.
    fn first_answered(&self) {
        self.settled(Settled::Success);
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        let (fill, _) = unpack(self.word.load(Ordering::Relaxed));
        fill >= HEDGE
    }

    fn spend(&self, _: Option<&Failure>) -> bool {
        self.update(|fill, earns| Some((fill.checked_sub(HEDGE)?, earns)))
    }

    fn refund(&self, _: Option<&Failure>) {
        self.update(|fill, earns| Some(((fill + HEDGE).min(MOST), earns)));
    }

    fn milli_tokens(&self) -> Option<u64> {
        let (fill, _) = unpack(self.word.load(Ordering::Relaxed));
        Some(u64::from(fill))
    }

    fn milli_headroom(&self) -> Option<u64> {
        let most_refused = u64::from(HEDGE - 1);
        Some(self.milli_tokens()?.saturating_sub(most_refused))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Stage;
    use crate::failure::reason::UNKNOWN;

    #[test]
    fn invalid_shares_are_refused() {
        for wrong in [0, 1001, u32::MAX] {
            let refused = HedgeBudget::of_thousandths(wrong).map(|_| ());
            assert_eq!(refused, Err(InvalidHedgeBudget(wrong)));
        }
    }

    #[test]
    fn a_final_answer_earns_as_a_success_does() {
        let budget = HedgeBudget::of_thousandths(100).unwrap();
        assert!(budget.spend(None));
        (0..10).for_each(|_| budget.first_answered());
        (0..10).for_each(|_| budget.first_failed());
        assert_eq!(budget.milli_tokens(), Some(1000));
    }

    #[test]
    fn a_new_share_keeps_the_fill() {
        let budget = HedgeBudget::of_thousandths(500).unwrap();
        (0..4).for_each(|_| budget.settled(Settled::Success));
        assert_eq!(budget.milli_tokens(), Some(3000));
        budget.reconfigure(1).unwrap();
        assert_eq!(budget.milli_tokens(), Some(3000));
        budget.settled(Settled::Success);
        assert_eq!(budget.milli_tokens(), Some(3001));
    }

    #[test]
    fn the_headroom_is_zero_while_hedges_are_refused() {
        let budget = HedgeBudget::of_thousandths(999).unwrap();
        assert_eq!(budget.milli_headroom(), Some(1));
        assert!(budget.spend(None));
        budget.settled(Settled::Success);
        assert!(!budget.allows(None));
        assert_eq!(budget.milli_headroom(), Some(0));
    }

    #[test]
    fn a_hedge_that_was_not_sent_is_refunded_up_to_the_most() {
        let budget = HedgeBudget::of_thousandths(1000).unwrap();
        assert!(budget.spend(None));
        budget.refund(None);
        assert_eq!(budget.milli_tokens(), Some(1000));
        (0..20).for_each(|_| budget.settled(Settled::Success));
        budget.refund(None);
        assert_eq!(budget.milli_tokens(), Some(10_000));
    }

    #[test]
    fn many_threads_never_overspend() {
        const EACH: usize = if cfg!(miri) { 20 } else { 1000 };
        let budget = HedgeBudget::of_thousandths(100).unwrap();
        let sent: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..EACH)
                            .filter(|_| {
                                budget.settled(Settled::Success);
                                budget.spend(None)
                            })
                            .count()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(
            sent,
            1 + 4 * EACH / 10,
            "spent often enough to never be full"
        );
    }

    proptest! {
        /// For any sequence of events: never more than the share plus the first, never more than
        /// ten at once.
        #[test]
        #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
        fn hedges_stay_within_their_share(
            thousandths in 1_u32..=1000,
            asks in proptest::collection::vec(prop_oneof![3 => Just(None), 1 => (0_u8..2).prop_map(Some)], 0..400),
        ) {
            let failure = Failure::new(UNKNOWN, Stage::Response);
            let budget = HedgeBudget::of_thousandths(thousandths).unwrap();
            let (mut settled, mut sent) = (0_u64, 0_u64);
            let mut plain = u64::from(FIRST);
            for ask in asks {
                match ask {
                    None => {
                        let allowed = plain >= u64::from(HEDGE);
                        prop_assert_eq!(budget.allows(None), allowed);
                        prop_assert_eq!(budget.spend(None), allowed);
                        if allowed {
                            plain -= u64::from(HEDGE);
                            sent += 1;
                        }
                    }
                    Some(failed) => {
                        let outcome = if failed == 1 { Settled::Failure(&failure) } else { Settled::Success };
                        budget.settled(outcome);
                        plain = (plain + u64::from(thousandths)).min(u64::from(MOST));
                        settled += 1;
                    }
                }
                prop_assert_eq!(budget.milli_tokens(), Some(plain));
                prop_assert!(sent * 1000 <= 1000 + settled * u64::from(thousandths));
                prop_assert!(plain <= u64::from(MOST));
            }
        }
    }
}
