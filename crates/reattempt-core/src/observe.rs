//! Observers: who is told of every decision.

use std::fmt::Debug;

use crate::{AttemptRecord, CallContext, RetryInfo};

/// Told of what a recovery layer does; for logs, metrics and tests.
///
/// Called in line: be quick, never block. With no observer set, a call that works at once pays nothing for it.
pub trait Observer: Debug + Send + Sync {
    /// An attempt goes out; `context` is its own.
    fn attempt_sent(&self, context: &CallContext) {
        let _ = context;
    }

    /// An attempt settled, and what was decided after it: a delay, or the gate that stopped it.
    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        let _ = (context, record);
    }

    /// The call is over for the recovery layer.
    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        let _ = (context, info);
    }
}
