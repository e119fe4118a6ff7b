//! What a throttle counts of an attempt that succeeded, was dropped, or whose response ended after
//! its head.

use super::{RetryThrottle, Settled};
use crate::{Failure, Verdict};

/// The throttle counts a success of this attempt of the call. `paid` is the failure for which it
/// last paid for a retry of the call.
#[inline]
pub fn count_success(throttle: &dyn RetryThrottle, attempt: u32, paid: Option<&Failure>) {
    if attempt > 1 {
        throttle.recovered(paid);
    } else {
        throttle.settled(Settled::Success);
    }
}

/// This attempt of the call ended without success: the throttle sees it if it is the call's first.
/// For attempts that are dropped; of those that fail the drivers do it.
pub fn count_unsuccessful(throttle: &dyn RetryThrottle, attempt: u32) {
    if attempt <= 1 {
        throttle.first_failed();
    }
}

/// The response of this attempt, which was committed, ended so. No attempt follows it: a fatal
/// failure is counted only as the outcome of a call's first attempt.
pub(crate) fn count_response_end(
    throttle: &dyn RetryThrottle,
    attempt: u32,
    verdict: &Verdict,
    paid: Option<&Failure>,
) {
    match verdict {
        Verdict::Success | Verdict::Committed => count_success(throttle, attempt, paid),
        Verdict::Fatal(failure) if attempt <= 1 && failure.is_answer() => throttle.first_answered(),
        Verdict::Fatal(_) => count_unsuccessful(throttle, attempt),
        Verdict::Retry(failure) => {
            count_unsuccessful(throttle, attempt);
            throttle.settled(Settled::Failure(failure));
        }
    }
}
