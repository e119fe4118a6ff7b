//! Two throttles for one route.

use super::{RetryThrottle, Settled};
use crate::Failure;

/// Lets an attempt through when both do; both are told of every settled attempt.
///
/// The second is asked only when the first permits, so put the one that only looks first
/// ([`TokenBucket`](super::TokenBucket)) and the one that spends ([`HedgeBudget`](super::HedgeBudget)) second. Records show the
/// fill of the first that has one.
///
/// ```
/// use reattempt_core::throttle::{Both, HedgeBudget, RetryThrottle, TokenBucket};
///
/// let both = Both(TokenBucket::new(10, 100)?, HedgeBudget::of_thousandths(50)?);
/// assert!(both.permits());
/// assert!(!both.permits(), "the budget is spent");
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

    fn permits(&self) -> bool {
        self.0.permits() && self.1.permits()
    }

    fn permits_after(&self, failure: &Failure) -> bool {
        self.0.permits_after(failure) && self.1.permits_after(failure)
    }

    fn recovered(&self, failure: &Failure) {
        self.0.recovered(failure);
        self.1.recovered(failure);
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.0.milli_tokens().or_else(|| self.1.milli_tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use crate::reason::UNKNOWN;
    use crate::throttle::{HedgeBudget, TokenBucket};

    #[test]
    fn a_hedge_that_the_first_refuses_costs_the_second_nothing() {
        let failure = Failure::new(UNKNOWN, Stage::Response);
        let both = Both(
            TokenBucket::new(2, 1000).unwrap(),
            HedgeBudget::of_thousandths(1).unwrap(),
        );
        both.settled(Settled::Failure(&failure));
        assert!(!both.permits(), "half of the bucket is too little");
        assert_eq!(both.1.milli_tokens(), Some(1001), "told, and not spent");
        both.settled(Settled::Success);
        assert!(both.permits());
        assert_eq!(both.1.milli_tokens(), Some(2));
    }
}
