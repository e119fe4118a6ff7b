//! Throttles: fewer further attempts while a server is failing (A6, Throttling Retry Attempts and
//! Hedged RPCs).

mod both;
mod counted;
mod governor;
mod hedge_budget;
mod ratio_budget;
mod token_bucket;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

pub use both::Both;
pub(crate) use counted::count_response_end;
pub use counted::{count_success, count_unsuccessful};
#[cfg(feature = "config")]
pub use governor::GovernorSettings;
pub use governor::{Governor, InvalidGovernor, Refusal};
pub use hedge_budget::{HedgeBudget, InvalidHedgeBudget};
pub use ratio_budget::{InvalidRatioBudget, RatioBudget};
pub use token_bucket::{InvalidTokenBucket, TokenBucket};

use crate::Failure;

/// How a settled attempt counts in a throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled<'a> {
    /// It succeeded.
    Success,
    /// It failed in a way that says something about the server: a retryable failure, or any failure
    /// with a stop pushback. Never a transparent or an always-retry failure.
    Failure(&'a Failure),
}

/// Counts every settled attempt and decides whether one more may be sent.
///
/// One throttle belongs to one server name and is shared by all its calls. No method blocks.
pub trait RetryThrottle: Debug + Send + Sync {
    /// An attempt settled.
    fn settled(&self, outcome: Settled<'_>);

    /// Whether one more attempt may be sent. Changes nothing.
    ///
    /// Called for a retry right after its failure was counted, before any delay and before the
    /// request is copied (A6, Throttling Retry Attempts and Hedged RPCs); for a hedge when it is
    /// due. A refusal is final for that attempt. `failure` is the one that the attempt follows, for
    /// throttles whose price depends on it; a hedge that is sent after its delay has none.
    fn allows(&self, failure: Option<&Failure>) -> bool;

    /// Pays for one more attempt, which [`allows`](Self::allows) permitted; `false` refuses it
    /// after all, and pays nothing.
    ///
    /// Called once per attempt, after all other gates: the request can be replayed and the delay
    /// ends before the deadline. By default nothing is paid.
    fn spend(&self, failure: Option<&Failure>) -> bool {
        let _ = failure;
        true
    }

    /// Refunds what [`spend`](Self::spend) paid for the same `failure`: that attempt was not sent
    /// (the caller cancelled during its delay, or the other throttle of [`Both`] refused). By
    /// default nothing.
    fn refund(&self, failure: Option<&Failure>) {
        let _ = failure;
    }

    /// An attempt other than the call's first succeeded: `failure` is the one for which this
    /// throttle last paid for a retry of the call, if it paid for any. For throttles that return
    /// the price; by default it counts as any other success.
    fn recovered(&self, failure: Option<&Failure>) {
        let _ = failure;
        self.settled(Settled::Success);
    }

    /// The first attempt of a call ended without success: it failed in any way, also in those that
    /// [`settled`](Self::settled) does not receive (a final failure, a transparent one), or it was
    /// dropped. Called before that failure is counted. For throttles that count calls; by default
    /// nothing.
    ///
    /// Together with `settled(Settled::Success)`, which only first attempts cause if `recovered` is
    /// implemented, a throttle sees a call once, when its first attempt ends. It does not see one
    /// whose response began and whose end no layer reported (the caller dropped it, for example),
    /// nor one that a layer below answered, such as the fallback of an open circuit.
    fn first_failed(&self) {}

    /// The first attempt of a call failed with the server's final answer, such as "not found": no
    /// sign of trouble. Called instead of [`first_failed`](Self::first_failed), as which it counts
    /// by default.
    fn first_answered(&self) {
        self.first_failed();
    }

    /// Why one more attempt after this failure would be refused now, for the log; `None` if it
    /// would not be, or if the throttle has no reason but its fill.
    fn refusal(&self, failure: Option<&Failure>) -> Option<Cow<'static, str>> {
        let _ = failure;
        None
    }

    /// The fill in thousandths of a token, for records and metrics; `None` if the throttle has
    /// none.
    fn milli_tokens(&self) -> Option<u64> {
        None
    }

    /// How far the fill is above the highest one at which a retry is refused, in thousandths of a
    /// token: so that throttles of different sizes compare. Zero if a retry would be refused, be it
    /// only one after the failures of the highest price. By default the fill itself.
    fn milli_headroom(&self) -> Option<u64> {
        self.milli_tokens()
    }
}

impl<T: RetryThrottle + ?Sized> RetryThrottle for Arc<T> {
    fn settled(&self, outcome: Settled<'_>) {
        (**self).settled(outcome);
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        (**self).allows(failure)
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        (**self).spend(failure)
    }

    fn refund(&self, failure: Option<&Failure>) {
        (**self).refund(failure);
    }

    fn recovered(&self, failure: Option<&Failure>) {
        (**self).recovered(failure);
    }

    fn first_failed(&self) {
        (**self).first_failed();
    }

    fn first_answered(&self) {
        (**self).first_answered();
    }

    fn refusal(&self, failure: Option<&Failure>) -> Option<Cow<'static, str>> {
        (**self).refusal(failure)
    }

    fn milli_tokens(&self) -> Option<u64> {
        (**self).milli_tokens()
    }

    fn milli_headroom(&self) -> Option<u64> {
        (**self).milli_headroom()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::Stage;
    use crate::failure::reason::UNKNOWN;

    const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);

    /// Refuses everything and records the calls.
    #[derive(Debug, Default)]
    struct Refuses(Mutex<Vec<&'static str>>);

    impl Refuses {
        fn was(&self, asked: &'static str) {
            self.0.lock().unwrap().push(asked);
        }
    }

    impl RetryThrottle for Refuses {
        fn settled(&self, _: Settled<'_>) {
            self.was("settled");
        }

        fn allows(&self, _: Option<&Failure>) -> bool {
            self.was("allows");
            false
        }

        fn spend(&self, _: Option<&Failure>) -> bool {
            self.was("spend");
            false
        }

        fn refund(&self, _: Option<&Failure>) {
            self.was("refund");
        }

        fn recovered(&self, _: Option<&Failure>) {
            self.was("recovered");
        }

        fn first_failed(&self) {
            self.was("first failed");
        }

        fn first_answered(&self) {
            self.was("first answered");
        }

        fn milli_tokens(&self) -> Option<u64> {
            Some(7)
        }

        fn milli_headroom(&self) -> Option<u64> {
            Some(5)
        }
    }

    #[test]
    fn a_shared_throttle_is_asked_as_it_is() {
        let throttle = Arc::new(Refuses::default());
        let shared: &Arc<dyn RetryThrottle> = &(throttle.clone() as Arc<dyn RetryThrottle>);
        shared.settled(Settled::Success);
        assert!(!RetryThrottle::allows(shared, None));
        assert!(!RetryThrottle::spend(shared, None));
        RetryThrottle::refund(shared, None);
        RetryThrottle::recovered(shared, Some(&FAILURE));
        RetryThrottle::first_failed(shared);
        RetryThrottle::first_answered(shared);
        assert_eq!(RetryThrottle::milli_tokens(shared), Some(7));
        assert_eq!(RetryThrottle::milli_headroom(shared), Some(5));
        assert_eq!(
            *throttle.0.lock().unwrap(),
            [
                "settled",
                "allows",
                "spend",
                "refund",
                "recovered",
                "first failed",
                "first answered"
            ]
        );
    }

    /// Counts only settled attempts, as most throttles do.
    #[derive(Debug, Default)]
    struct Counts(Mutex<u32>);

    impl RetryThrottle for Counts {
        fn settled(&self, outcome: Settled<'_>) {
            assert_eq!(outcome, Settled::Success);
            *self.0.lock().unwrap() += 1;
        }

        fn allows(&self, _: Option<&Failure>) -> bool {
            true
        }
    }

    #[test]
    fn by_default_nothing_is_paid_and_a_recovery_is_a_success() {
        let throttle = Counts::default();
        assert!(throttle.spend(Some(&FAILURE)) && throttle.milli_tokens().is_none());
        throttle.refund(None);
        assert_eq!(*throttle.0.lock().unwrap(), 0);
        throttle.first_failed();
        throttle.first_answered();
        assert_eq!(*throttle.0.lock().unwrap(), 0);
        throttle.recovered(Some(&FAILURE));
        assert_eq!(*throttle.0.lock().unwrap(), 1);
    }
}
