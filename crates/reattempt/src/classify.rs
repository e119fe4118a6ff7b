//! Classifiers: turn one response or error into one [`Verdict`].

use std::sync::Arc;

use crate::failure::reason::UNKNOWN;
use crate::{CallContext, Failure, OnDeadline, Verdict};

/// Classifies the result of one attempt. The recovery layer calls it exactly once per attempt.
///
/// Closures over `(Result<&Res, &Err>, &CallContext)` implement it; [`classify_fn`] names their
/// types where these cannot be inferred. Classifiers compose: [`Classify::or_else`] asks a second
/// one if the first returns `UNKNOWN`.
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

    /// Asks `next` when this classifier's reason is `UNKNOWN`. A closure that fails with it for all
    /// that it leaves to `next` overrides the rest.
    fn or_else<B>(self, next: B) -> OrElse<Self, B>
    where
        Self: Sized,
        B: Classify<Res, Err>,
    {
        OrElse { first: self, next }
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

/// Returned by [`Classify::or_else`].
#[derive(Clone, Debug)]
pub struct OrElse<A, B> {
    first: A,
    next: B,
}

impl<A, B, Res, Err> Classify<Res, Err> for OrElse<A, B>
where
    A: Classify<Res, Err>,
    B: Classify<Res, Err>,
{
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict {
        let verdict = self.first.classify(outcome, context);
        match verdict.failure() {
            Some(failure) if failure.reason == UNKNOWN => self.next.classify(outcome, context),
            _ => verdict,
        }
    }

    fn may_force(&self) -> bool {
        self.first.may_force() || self.next.may_force()
    }

    fn on_deadline(&self) -> OnDeadline {
        match self.first.on_deadline() {
            OnDeadline::Cap => OnDeadline::Cap,
            OnDeadline::GiveUp => self.next.on_deadline(),
        }
    }

    fn unknown_error(&self, error: &Err, failure: &Failure) -> Option<String> {
        let of_next = self.next.unknown_error(error, failure);
        of_next.or_else(|| self.first.unknown_error(error, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use crate::failure::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE};

    fn by_code(outcome: Result<&u16, &()>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(0) => Verdict::Success,
            Ok(9) => Verdict::Retry(Failure::new(KV_LOCKED, Stage::Response)),
            _ => Verdict::Fatal(Failure::new(UNKNOWN, Stage::Response)),
        }
    }

    #[test]
    fn the_second_classifier_decides_only_if_the_first_is_unknown() {
        let both = by_code.or_else(classify_fn(|_: Result<&u16, &()>, _| {
            Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response))
        }));
        let context = CallContext::default();
        assert_eq!(both.classify(Ok(&0), &context), Verdict::Success);
        let reason = |code: u16| {
            both.classify(Ok(&code), &context)
                .failure()
                .map(|f| f.reason)
        };
        assert_eq!(reason(9), Some(KV_LOCKED));
        assert_eq!(reason(1), Some(KV_TEMPORARY_FAILURE));
    }
}
