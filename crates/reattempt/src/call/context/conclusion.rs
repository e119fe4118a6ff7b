//! The end of a committed response.

use std::sync::Arc;

use super::AttemptReporter;
use crate::policy::throttle::Settled;
use crate::{AttemptKind, Failure, RetryThrottle};

/// Reports to the throttle how a committed response ended.
#[derive(Clone, Debug)]
pub struct Conclusion {
    pub(super) reporter: AttemptReporter,
    pub(super) kind: AttemptKind,
    pub(super) throttle: Option<Arc<dyn RetryThrottle>>,
}

impl Conclusion {
    /// Reports the end of the response. Counted once, and only if the recovery layer had left it
    /// open; `Err` with `counts` false is recorded but says nothing about the server (a fatal
    /// status).
    pub fn conclude(&self, end: Result<(), (&Failure, bool)>) {
        let Some(state) = &self.reporter.state else {
            return;
        };
        if !state.slots.conclude(self.reporter.seat) {
            return;
        }
        let settled = match end {
            Ok(()) => match (state.last_permitted(), &self.throttle) {
                (Some(failure), Some(throttle)) => {
                    throttle.recovered(&failure);
                    None
                }
                _ => Some(Settled::Success),
            },
            Err((failure, counts)) => {
                state.concluded(self.reporter.seat, self.kind, failure, counts);
                counts.then_some(Settled::Failure(failure))
            }
        };
        if let (Some(throttle), Some(settled)) = (&self.throttle, settled) {
            throttle.settled(settled);
        }
    }
}
