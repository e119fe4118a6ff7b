//! Two throttles for one route.

use super::{RetryThrottle, Settled};
use crate::Failure;
use std::borrow::Cow;

/// Allows an attempt if both throttles do; both count every settled attempt.
///
/// Neither pays for an attempt that the other refuses, as long as the first one refunds. A
/// [`Governor`](super::Governor) never does, nor a [`RatioBudget`](super::RatioBudget), nor an own
/// throttle without `refund`: put it second.
/// Records show the fill of the first throttle that has one.
///
/// ```
/// use reattempt::throttle::{Both, HedgeBudget, RetryThrottle, TokenBucket};
///
/// let both = Both(TokenBucket::new(10, 100)?, HedgeBudget::of_thousandths(50)?);
/// assert!(both.allows(None) && both.spend(None));
/// assert!(!both.allows(None), "the budget is spent");
/// assert_eq!(both.milli_tokens(), Some(10_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Both<A, B>(pub A, pub B);

impl<A: RetryThrottle, B: RetryThrottle> RetryThrottle for Both<A, B> {
    fn settled(&self, outcome: Settled<'_>) {
        self.0.settled(outcome);
        self.1.settled(outcome);
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        self.0.allows(failure) && self.1.allows(failure)
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        if !self.0.spend(failure) {
            return false;
        }
        let both = self.1.spend(failure);
        if !both {
            self.0.refund(failure);
        }
        both
    }

    fn refund(&self, failure: Option<&Failure>) {
        self.0.refund(failure);
        self.1.refund(failure);
    }

    fn recovered(&self, failure: Option<&Failure>) {
        self.0.recovered(failure);
        self.1.recovered(failure);
    }

    fn first_failed(&self) {
        self.0.first_failed();
        self.1.first_failed();
    }

    fn first_answered(&self) {
        self.0.first_answered();
        self.1.first_answered();
    }

    fn refusal(&self, failure: Option<&Failure>) -> Option<Cow<'static, str>> {
        self.0.refusal(failure).or_else(|| self.1.refusal(failure))
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.0.milli_tokens().or_else(|| self.1.milli_tokens())
    }

    fn milli_headroom(&self) -> Option<u64> {
        self.0.milli_headroom().or_else(|| self.1.milli_headroom())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Stage;
    use crate::failure::reason::UNKNOWN;
    use crate::policy::throttle::{HedgeBudget, TokenBucket};

    const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);

    /// Pays only once, but always allows.
    #[derive(Debug, Default)]
    struct PaysOnce {
        paid: AtomicU32,
        refunded: AtomicU32,
        recovered: AtomicU32,
    }

    impl RetryThrottle for PaysOnce {
        fn settled(&self, _: Settled<'_>) {}

        fn allows(&self, _: Option<&Failure>) -> bool {
            true
        }

        fn spend(&self, _: Option<&Failure>) -> bool {
            self.paid.fetch_add(1, Ordering::Relaxed) == 0
        }

        fn refund(&self, _: Option<&Failure>) {
            self.refunded.fetch_add(1, Ordering::Relaxed);
        }

        fn recovered(&self, _: Option<&Failure>) {
            self.recovered.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_attempt_refused_by_one_costs_the_other_nothing() {
        let bucket = || TokenBucket::new(2, 1000).unwrap();
        let budget = || HedgeBudget::of_thousandths(1).unwrap();
        let both = Both(bucket(), budget());
        both.settled(Settled::Failure(&FAILURE));
        assert!(
            !both.allows(None),
            "exactly half of the bucket is not enough"
        );
        assert_eq!(both.1.milli_tokens(), Some(1001), "counted, and not spent");
        both.settled(Settled::Success);
        assert!(both.allows(None) && both.spend(None));
        assert_eq!(both.1.milli_tokens(), Some(2));
        assert!(
            !both.allows(None) && !both.spend(None),
            "the second refuses"
        );
        assert!(!Both(budget(), both.1).allows(None));
    }

    #[test]
    fn the_first_gets_its_price_back_when_the_second_refuses() {
        let both = Both(HedgeBudget::of_thousandths(1).unwrap(), PaysOnce::default());
        assert!(both.spend(None));
        (0..1000).for_each(|_| both.0.settled(Settled::Success));
        assert_eq!(both.0.milli_tokens(), Some(1000));
        assert!(!both.spend(Some(&FAILURE)));
        assert_eq!(both.0.milli_tokens(), Some(1000));
        assert_eq!(both.1.refunded.load(Ordering::Relaxed), 0, "it did not pay");
        both.refund(None);
        assert_eq!(both.0.milli_tokens(), Some(2000));
        assert_eq!(both.1.refunded.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_second_does_not_pay_when_the_first_refuses() {
        let both = Both(HedgeBudget::of_thousandths(1).unwrap(), PaysOnce::default());
        assert!(both.0.spend(None));
        assert!(!both.spend(None));
        assert_eq!(both.1.paid.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn both_learn_that_a_call_recovered() {
        let both = Both(PaysOnce::default(), PaysOnce::default());
        both.recovered(Some(&FAILURE));
        let learned = [&both.0, &both.1].map(|one| one.recovered.load(Ordering::Relaxed));
        assert_eq!(learned, [1, 1]);
    }

    #[test]
    fn the_fill_is_that_of_the_first_that_has_one() {
        let budget = || HedgeBudget::of_thousandths(1).unwrap();
        let bucket = || TokenBucket::new(7, 100).unwrap();
        assert_eq!(Both(bucket(), budget()).milli_tokens(), Some(7000));
        assert_eq!(
            Both(PaysOnce::default(), bucket()).milli_tokens(),
            Some(7000)
        );
        let none = Both(PaysOnce::default(), PaysOnce::default());
        assert_eq!(none.milli_tokens(), None);
    }
}
