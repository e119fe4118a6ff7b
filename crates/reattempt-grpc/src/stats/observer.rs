//! Counts what the recovery layer reports: retries, hedges, transparent retries, and their
//! failures.

use std::sync::Arc;

use reattempt::{AttemptKind, AttemptOutcome, AttemptRecord, CallContext, Observer, StopReason};

use super::GrpcStats;
use super::methods::Method;
use super::progress::Progress;

impl GrpcStats {
    /// The method and the progress of an observed call.
    fn method_and_progress<'a>(
        &self,
        context: &'a CallContext,
    ) -> (Arc<Method>, Option<&'a Progress>) {
        match Progress::of(self, context) {
            Some(progress) => (Arc::clone(&progress.method), Some(progress)),
            None => {
                self.0.no_call_layer.warn(
                    "GrpcStats",
                    "observes calls that did not come through its call_layer, so it does not know their method: put it above",
                );
                (self.0.methods.other(), None)
            }
        }
    }
}

const fn is_retry_attempt(kind: AttemptKind) -> bool {
    matches!(kind, AttemptKind::Retry | AttemptKind::Hedge)
}

impl Observer for GrpcStats {
    /// Durations and statuses come from the layers.
    fn sees_success(&self) -> bool {
        false
    }

    fn attempt_sent(&self, context: &CallContext) {
        let kind = context.kind();
        let (method, progress) = self.method_and_progress(context);
        let nth = match progress {
            Some(progress) => progress.sent(kind),
            None => is_retry_attempt(kind).then(|| context.info().retries()),
        };
        if let Some(nth) = nth {
            method.retries.sent(nth);
        }
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        let (method, progress) = self.method_and_progress(context);
        if let Some(progress) = progress {
            // With a delay that would pass the deadline, the call waits until the deadline.
            let waits = matches!(record.stopped, None | Some(StopReason::Deadline));
            progress.settled(waits && record.outcome == AttemptOutcome::Retry);
        }
        // A stream that has begun is counted by the attempt layer.
        let failed = match record.outcome {
            AttemptOutcome::Retry | AttemptOutcome::Fatal => true,
            AttemptOutcome::Cancelled => record.stopped == Some(StopReason::Deadline),
            _ => false,
        };
        if failed && is_retry_attempt(record.kind) {
            method.retries.failed();
        }
    }

    fn sees_end(&self, _: StopReason) -> bool {
        false
    }
}

/// A stream of a committed call failed: counts it if it belongs to a retry attempt.
pub(super) fn stream_failed(method: &Method, kind: AttemptKind) {
    if is_retry_attempt(kind) {
        method.retries.failed();
    }
}
