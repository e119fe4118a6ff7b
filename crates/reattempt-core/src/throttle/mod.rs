//! Throttles: when a server is failing, fewer further attempts (A6, Throttling Retry Attempts and Hedged RPCs).

mod both;
mod hedge_budget;
mod token_bucket;

use std::fmt::Debug;
use std::sync::Arc;

pub use both::Both;
pub use hedge_budget::{HedgeBudget, InvalidHedgeBudget};
pub use token_bucket::{InvalidTokenBucket, TokenBucket};

use crate::Failure;

/// What a settled attempt means to a throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled<'a> {
    /// It worked.
    Success,
    /// It failed in a way that says something about the server: a retryable failure, or any
    /// failure with a "do not retry" pushback. Never a transparent or an always-retry one.
    Failure(&'a Failure),
}

/// Told of every settled attempt; answers whether one more may be sent.
///
/// One throttle stands for one server name and is shared by all its calls. Neither call blocks.
pub trait RetryThrottle: Debug + Send + Sync {
    /// An attempt settled.
    fn settled(&self, outcome: Settled<'_>);

    /// May one more attempt (a retry right after its failure was counted, a hedge at the moment it
    /// would be sent) go out?
    ///
    /// Asked once for each such attempt, right before it would go out, so that a throttle may take its price here
    /// ([`HedgeBudget`] does). A refusal is final for that attempt. A retry that was permitted can still come to nothing
    /// (its delay does not fit before the deadline, the caller gives up); its price is not given back.
    fn permits(&self) -> bool;

    /// The same for a retry, with the failure that it is to mend: for throttles whose price depends on that.
    fn permits_after(&self, failure: &Failure) -> bool {
        let _ = failure;
        self.permits()
    }

    /// An attempt worked that was not the call's first: `failure` is the one after which this throttle last permitted a retry
    /// of the call. For throttles that give a price back; by default a success as any other.
    fn recovered(&self, failure: &Failure) {
        let _ = failure;
        self.settled(Settled::Success);
    }

    /// The fill in thousandths of a token, for records and metrics; `None` if it has no such thing.
    fn milli_tokens(&self) -> Option<u64> {
        None
    }
}

impl<T: RetryThrottle + ?Sized> RetryThrottle for Arc<T> {
    fn settled(&self, outcome: Settled<'_>) {
        (**self).settled(outcome);
    }

    fn permits(&self) -> bool {
        (**self).permits()
    }

    fn permits_after(&self, failure: &Failure) -> bool {
        (**self).permits_after(failure)
    }

    fn recovered(&self, failure: &Failure) {
        (**self).recovered(failure);
    }

    fn milli_tokens(&self) -> Option<u64> {
        (**self).milli_tokens()
    }
}
