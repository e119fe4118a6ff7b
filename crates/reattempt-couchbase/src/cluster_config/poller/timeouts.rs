//! Nodes that never answer (RFC 0024, Conclusion: "host not found, timeouts, etc").

use reattempt::{AttemptOutcome, AttemptRecord, CallContext, Observer, StopReason};

use super::ConfigPoller;
use crate::cluster_config::Address;

/// As an observer of a recovery layer: an attempt in flight when its call's deadline expires causes
/// a refresh from another node, as any other error does.
///
/// `ConfigPollLayer` sees outcomes, and such an attempt has none: the deadline drops it. Without
/// this observer, only the next poll would detect a node that accepts requests and answers none.
/// The node is the one that the transport reported.
///
/// ```
/// # use reattempt::{Call, CallContext, RetryLayer, Verdict, classify_fn};
/// # use reattempt::strategy::BestEffort;
/// # use reattempt_couchbase::ConfigPoller;
/// # fn layer(poller: &ConfigPoller) {
/// # let classifier = classify_fn(|_: Result<&(), &()>, _: &CallContext| Verdict::Success);
/// let layer = RetryLayer::new(classifier, BestEffort::new())
///     .observer(std::sync::Arc::new(poller.clone()));
/// # let _ = layer;
/// # }
/// ```
impl Observer for ConfigPoller {
    fn sees_success(&self) -> bool {
        false
    }

    fn sees_sent(&self) -> bool {
        false
    }

    fn sees_end(&self, _: StopReason) -> bool {
        false
    }

    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let timed_out = record.outcome == AttemptOutcome::Cancelled
            && record.stopped == Some(StopReason::Deadline);
        if timed_out {
            let node = record.backend.as_ref();
            let node = node.and_then(|node| node.as_str().parse::<Address>().ok());
            // The call is over, so nothing waits for the refresh.
            drop(self.refresh(node.as_ref()));
        }
    }
}
