//! Tracking of one call, from its request to its answer.

use reattempt::{CallDeadline, HasCallContext, RetryInfo, RetryInfoHandle};
use tokio::time::Instant;

use super::answer::Answer;
use super::attempts::{Ending, Journal, stopped};
use super::document::Head;
use super::in_millis::InMillis;

/// Tracks one call from its start.
#[derive(Debug)]
pub(crate) struct Story {
    watch: RetryInfoHandle,
    pub(crate) journal: Journal,
    pub(crate) limit: Option<CallDeadline>,
}

impl Story {
    /// Starts the call: sets its deadline and attaches its journal.
    pub(crate) fn begin<R: HasCallContext>(head: &Head, request: &mut R) -> Self {
        let watch = RetryInfo::track(request);
        let journal = Journal::of(request);
        // A timeout that the clock cannot represent means none.
        let end = head
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let limit = end.map(|end| CallDeadline::attached(end.into_std()));
        if let Some(limit) = limit {
            request.context_mut().attach_deadline(limit);
        }
        Self {
            watch,
            journal,
            limit,
        }
    }

    pub(crate) fn info(&self) -> RetryInfo {
        self.watch.info()
    }

    /// Ends the call for its caller.
    pub(crate) fn end(&self, call: String, ending: Ending) -> Answer {
        let info = self.info();
        let mut answer = Answer::unsent(call);
        // The call has ended: what is written of it takes time too.
        let now = Instant::now();
        answer.attempts = self.journal.attempts(&info, ending, now);
        answer.elapsed_ms = InMillis(self.journal.elapsed(now));
        answer.reasons = info.reasons().map(|reason| reason.name()).collect();
        answer.stopped = stopped(&info, ending);
        answer
    }
}
