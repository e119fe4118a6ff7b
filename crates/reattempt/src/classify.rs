//! Classifiers: turn one response or error into one [`Verdict`].

use std::sync::Arc;

use crate::{CallContext, Failure, OnDeadline, Verdict};

/// Classifies the result of one attempt. The recovery layer calls it exactly once per attempt.
///
/// Closures over `(Result<&Res, &Err>, &CallContext)` implement it; with [`classify_fn`] the types
/// of their arguments are inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot classify `Result<&{Res}, &{Err}>`",
    label = "not a classifier of this service's response and error",
    note = "a classifier must know the response and the error of the service right below the recovery layer: put `map_err` above that layer",
    note = "`HttpClassifier` knows an `http::Response`, and errors that implement `reattempt_http::TransportError`: enable reattempt-http's feature of the client's name, put `.map_err(reattempt_http::AnyTransportError::new)` below the recovery layer, or implement it for an error type of your own",
    note = "for a closure, write its argument types or wrap it in `classify_fn(|outcome, context| …)`"
)]
pub trait Classify<Res, Err> {
    /// Returns the verdict on one attempt; `context` is the context of that attempt.
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict;

    /// True (the default) if a verdict of this classifier can force a further attempt past the
    /// strategy's maximum: an always-retry reason or a transparent failure. With `false`, the last
    /// attempt moves the request instead of copying it; above several backends with circuit
    /// breakers of their own leave it `true`, because a refused request moves on to the next one.
    fn may_force(&self) -> bool {
        true
    }

    /// What the protocol does with a delay that does not fit before the deadline, where the
    /// strategy leaves it open ([`RetryStrategy::on_deadline`](crate::RetryStrategy::on_deadline)):
    /// [`OnDeadline::GiveUp`] by default, [`OnDeadline::Cap`] if its specification says so (RFC
    /// 0049, Capping the Retry Duration).
    fn on_deadline(&self) -> OnDeadline {
        OnDeadline::GiveUp
    }

    /// What to log about an error whose type this classifier does not know: the type, and what
    /// would read it. `None` (the default) if it knows the type, or if `failure`, the verdict's, is
    /// of a known reason. No contents of the error, which may include credentials.
    ///
    /// The recovery layer asks after each attempt that failed with an error, until it has logged
    /// one: once per stack, at WARN.
    fn unknown_error(&self, error: &Err, failure: &Failure) -> Option<String> {
        let _ = (error, failure);
        None
    }
}

#[diagnostic::do_not_recommend]
impl<F, Res, Err> Classify<Res, Err> for F
where
    F: Fn(Result<&Res, &Err>, &CallContext) -> Verdict,
{
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict {
        self(outcome, context)
    }
}

impl<C, Res, Err> Classify<Res, Err> for Arc<C>
where
    C: Classify<Res, Err> + ?Sized,
{
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict {
        (**self).classify(outcome, context)
    }

    fn may_force(&self) -> bool {
        (**self).may_force()
    }

    fn on_deadline(&self) -> OnDeadline {
        (**self).on_deadline()
    }

    fn unknown_error(&self, error: &Err, failure: &Failure) -> Option<String> {
        (**self).unknown_error(error, failure)
    }
}

/// Returns the closure unchanged; the compiler infers its argument types as those of a classifier.
pub const fn classify_fn<F, Res, Err>(f: F) -> F
where
    F: Fn(Result<&Res, &Err>, &CallContext) -> Verdict,
{
    f
}
