//! Observers: who is told of every decision.

use std::fmt::Debug;

use crate::{AttemptRecord, CallContext, RetryInfo, Stopped};

/// Told of what a recovery layer does; for logs, metrics and tests.
///
/// Called in line: be quick, never block. With no observer set, a call that works at once pays
/// nothing for it.
pub trait Observer: Debug + Send + Sync {
    /// Does it want to hear of a first attempt that worked? `false` keeps that path free of
    /// records.
    fn sees_success(&self) -> bool {
        true
    }

    /// An attempt goes out; `context` is its own.
    fn attempt_sent(&self, context: &CallContext) {
        let _ = context;
    }

    /// An attempt settled, and what was decided after it: a delay, or the gate that stopped it.
    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        let _ = (context, record);
    }

    /// A planned attempt of a hedged call was held back at the moment it would have been sent, and
    /// is used up; others may still be out. No attempt was made, so no record tells of it:
    /// [`RetryInfo::refused`] counts it.
    fn hedge_refused(&self, context: &CallContext, stopped: Stopped) {
        let _ = (context, stopped);
    }

    /// The call is over for the recovery layer. Nothing is said of it afterwards.
    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        let _ = (context, info);
    }
}

/// Both are told, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn sees_success(&self) -> bool {
        self.0.sees_success() || self.1.sees_success()
    }

    fn attempt_sent(&self, context: &CallContext) {
        self.0.attempt_sent(context);
        self.1.attempt_sent(context);
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        self.0.attempt_settled(context, record);
        self.1.attempt_settled(context, record);
    }

    fn hedge_refused(&self, context: &CallContext, stopped: Stopped) {
        self.0.hedge_refused(context, stopped);
        self.1.hedge_refused(context, stopped);
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        self.0.call_ended(context, info);
        self.1.call_ended(context, info);
    }
}

impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn sees_success(&self) -> bool {
        (**self).sees_success()
    }

    fn attempt_sent(&self, context: &CallContext) {
        (**self).attempt_sent(context);
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        (**self).attempt_settled(context, record);
    }

    fn hedge_refused(&self, context: &CallContext, stopped: Stopped) {
        (**self).hedge_refused(context, stopped);
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        (**self).call_ended(context, info);
    }
}
