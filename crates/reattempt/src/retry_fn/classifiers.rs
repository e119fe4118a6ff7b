//! Which errors of a function are retried.

use crate::{CallContext, Classify, Failure, Stage, Verdict};

crate::retry_reasons! {
    /// A retried function returned an error, and no classifier says more about it. Retried only if
    /// the function is idempotent.
    pub FUNCTION_FAILED(false, false);
}

/// The attempt may have taken effect: only its function could know that it did not.
const FAILED: Failure = Failure::new(FUNCTION_FAILED, Stage::InFlight);

/// Every error may be retried.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyError;

impl<T, E> Classify<T, E> for AnyError {
    fn classify(&self, outcome: Result<&T, &E>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Retry(FAILED),
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}

/// The errors may be retried for which a predicate is true. Made by
/// [`RetryFn::when`](super::RetryFn::when).
#[derive(Clone, Copy)]
pub struct When<P>(pub(super) P);

impl<P> std::fmt::Debug for When<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("When")
    }
}

impl<P: Fn(&E) -> bool, T, E> Classify<T, E> for When<P> {
    fn classify(&self, outcome: Result<&T, &E>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(error) if (self.0)(error) => Verdict::Retry(FAILED),
            Err(_) => Verdict::Fatal(FAILED),
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}
