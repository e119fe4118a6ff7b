//! What a retried function learns of its attempt.

use std::time::Duration;

use crate::{AttemptReporter, CallContext, clock};

/// One attempt of a call, as a function sees it that is [retried](crate::retry()).
#[derive(Clone, Debug)]
pub struct Attempt(pub(super) CallContext);

impl Attempt {
    /// Its number; the first is 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0.attempt()
    }

    /// The time until the call's deadline, zero once it has passed; `None` without a
    /// [`timeout`](crate::RetryFn::timeout). For requests that carry the time their client waits.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        Some(self.0.deadline()?.left(clock::now()))
    }

    /// Reports what is observed of this attempt: the server's pushback, how far the request came,
    /// the backend, or that no further attempt may follow.
    #[must_use]
    pub fn reporter(&self) -> AttemptReporter {
        self.0.reporter()
    }

    /// The context of the attempt: its kind, the call's data, and its history so far. A clone of
    /// it, in a `Call` or in the extensions of an `http::Request`, makes layers below part of this
    /// attempt.
    #[must_use]
    pub const fn context(&self) -> &CallContext {
        &self.0
    }
}
