//! Nodes that never answer (RFC 0024, Conclusion: "host not found, timeouts, etc").

use reattempt::{AttemptOutcome, AttemptRecord, CallContext, Observer, Stopped};

use super::ConfigPoller;
use crate::cluster_config::Address;

/// As a recovery layer's observer: an attempt that was out when its call's time was up asks another
/// node, as any other error does.
///
/// `ConfigPollLayer` sees outcomes, and such an attempt has none: the deadline drops it. Without
/// this a node that takes requests and answers none is found out by the next poll only. The node is
/// the one that the transport reported.
///
/// ```
/// # use reattempt::{Call, CallContext, RetryLayer, Verdict, classify_fn, observe::LogObserver, strategy::BestEffort};
/// # use reattempt_couchbase::ConfigPoller;
/// # fn layer(poller: &ConfigPoller) {
/// # let classifier = classify_fn(|_: Result<&(), &()>, _: &CallContext| Verdict::Success);
/// let layer = RetryLayer::new(classifier, BestEffort::new())
///     .observer(std::sync::Arc::new((LogObserver, poller.clone())));
/// # let _ = layer;
/// # }
/// ```
impl Observer for ConfigPoller {
    fn sees_success(&self) -> bool {
        false
    }

    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let timed_out = record.outcome == AttemptOutcome::Cancelled
            && record.stopped == Some(Stopped::Deadline);
        if timed_out {
            let node = record.backend.as_ref();
            let node = node.and_then(|node| node.as_str().parse::<Address>().ok());
            // Nobody waits for it: the call is over.
            drop(self.refresh(node.as_ref()));
        }
    }
}
