//! A call that waits for its deadline, and sends nothing more.

use std::time::{Duration, Instant};

use super::Source;
use crate::{CallDeadline, HasCallContext, clock};

/// When a call ends by itself that was left to a `Deadline` layer above: long enough after its
/// deadline for that layer to have ended it, unless it no longer polls the call, as when a layer
/// between them sends the call in a task of its own.
pub(crate) fn past(deadline: CallDeadline) -> Instant {
    clock::after(deadline.at, Duration::from_secs(1))
}

impl<S, Req: HasCallContext> Source<S, Req> {
    /// Drops the request and the service.
    pub(crate) fn shed(&mut self) {
        if let Self::Template { request, .. } = self {
            *self = Self::Last(std::mem::take(request.context_mut()));
        }
    }
}
