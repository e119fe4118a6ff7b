//! What a throttle counts of a failed attempt.

use super::count_unsuccessful;
use crate::RetryThrottle;
use crate::machine::FailedAttempt;
use crate::policy::throttle::Settled;

/// The throttle counts a failed attempt, whose record gets the fill. False if the failure is none
/// of its own.
pub(super) fn count(throttle: &dyn RetryThrottle, failed: &mut FailedAttempt) -> bool {
    let counts = failed.counts();
    let attempt = failed.record.number;
    if attempt <= 1 && failed.is_final_answer() {
        throttle.first_answered();
    } else {
        count_unsuccessful(throttle, attempt);
    }
    if failed.is_for_throttle() {
        if counts {
            throttle.settled(Settled::Failure(failed.failure()));
        }
        failed.record.milli_tokens = throttle.milli_tokens();
    }
    counts
}
