//! A deadline that has passed by the time an attempt is to be sent.

use std::time::Instant;

use crate::CallDeadline;

/// What to do when the wait is over and the service is ready. Unless the attempt is sent, the
/// driver's throttle gets back what it spent:
/// [`RetryDriver::unsent`](crate::driver::RetryDriver::unsent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Send the attempt.
    Send,
    /// The deadline passed meanwhile, and no layer enforces it: return the failure that was kept.
    Return,
    /// The deadline passed meanwhile: let it end the call.
    Expire,
}

impl Resume {
    /// Whether the attempt that was waited for may be sent at `now`.
    #[must_use]
    pub fn at(now: Instant, deadline: Option<CallDeadline>) -> Self {
        match deadline {
            Some(deadline) if deadline.passed(now) && deadline.enforced => Self::Expire,
            Some(deadline) if deadline.passed(now) => Self::Return,
            _ => Self::Send,
        }
    }
}
