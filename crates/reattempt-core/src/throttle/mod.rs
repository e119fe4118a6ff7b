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

/// Counts every settled attempt; answers whether one more may be sent.
///
/// One throttle stands for one server name and is shared by all its calls. No method blocks.
pub trait RetryThrottle: Debug + Send + Sync {
    /// An attempt settled.
    fn settled(&self, outcome: Settled<'_>);

    /// May one more attempt go out? Changes nothing.
    ///
    /// Asked of a retry right after its failure was counted, before any delay and before a copy of
    /// the request is made (A6, Throttling Retry Attempts and Hedged RPCs); of a hedge when it would
    /// be sent. A refusal is final for that attempt. `failure` is the one that a retry follows, for
    /// throttles whose price depends on it; a hedge has none.
    fn allows(&self, failure: Option<&Failure>) -> bool;

    /// Pays for one more attempt, which [`allows`](Self::allows) let through; `false` refuses it after
    /// all, and pays nothing.
    ///
    /// Called once for an attempt, when nothing else stands in its way: the request can be replayed
    /// and the delay ends before the deadline. By default nothing is paid.
    fn spend(&self, failure: Option<&Failure>) -> bool {
        let _ = failure;
        true
    }

    /// Takes back what [`spend`](Self::spend) paid for the same `failure`: that attempt was not sent
    /// (the caller gave up during its delay, or the other of [`Both`] refused). By default nothing.
    fn refund(&self, failure: Option<&Failure>) {
        let _ = failure;
    }

    /// An attempt worked that was not the call's first: `failure` is the one after which this throttle
    /// last paid for a retry of the call. For throttles that give a price back; by default a success
    /// as any other.
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

    fn allows(&self, failure: Option<&Failure>) -> bool {
        (**self).allows(failure)
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        (**self).spend(failure)
    }

    fn refund(&self, failure: Option<&Failure>) {
        (**self).refund(failure);
    }

    fn recovered(&self, failure: &Failure) {
        (**self).recovered(failure);
    }

    fn milli_tokens(&self) -> Option<u64> {
        (**self).milli_tokens()
    }
}
