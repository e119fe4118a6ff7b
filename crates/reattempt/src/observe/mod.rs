//! Observers: receive every decision.

mod finish;
#[cfg(feature = "tokio")]
pub(crate) mod log;
#[cfg(feature = "tokio")]
mod timing;

use std::fmt::Debug;

use crate::policy::health::HealthEvent;
use crate::{AttemptRecord, CallContext, Failure, RetryInfo, StopReason};
#[cfg(feature = "tokio")]
pub use log::LogObserver;

/// Receives what a recovery layer does; for metrics and tests. The log is always there: see
/// [`LogObserver`].
///
/// Called inline: be quick and never block. With no observer set, a call that succeeds at once has
/// no cost for it. A panic ends the call as a drop of its future does, but for one in
/// [`attempt_sent`](Self::attempt_sent) of a first attempt, which is sent before there is a future;
/// if it was at the attempt that succeeded, no observer sees more of the call.
pub trait Observer: Debug + Send + Sync {
    /// Whether the observer wants first attempts that succeed: `false` spares such a call a record,
    /// and the observer is not notified of it. Asked when it is added to a layer, and again.
    fn sees_success(&self) -> bool {
        true
    }

    /// Whether the observer wants to know of first attempts that are sent. `false` spares each call
    /// a copy of its context; it may be notified all the same, beside an observer that wants them.
    /// Asked when the observer is added to a layer.
    fn sees_sent(&self) -> bool {
        true
    }

    /// An attempt is sent; `context` is the context of that attempt.
    fn attempt_sent(&self, context: &CallContext) {
        let _ = context;
    }

    /// An attempt was settled. The record holds the decision: a delay, or the gate that stopped the
    /// call; the call's history contains it already.
    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        let _ = (context, record);
    }

    /// The first and only attempt of a call succeeded, or its response is committed: its record and
    /// the end of the call, of which nothing is kept. By default passed on to
    /// [`attempt_settled`](Self::attempt_settled) and [`call_ended`](Self::call_ended). Only for
    /// observers that [want it](Self::sees_success).
    fn first_succeeded(&self, context: &CallContext, committed: bool) {
        let record = context.success_record(committed);
        self.attempt_settled(context, &record);
        if record.stopped.is_some_and(|stopped| self.sees_end(stopped)) {
            self.call_ended(context, &context.info());
        }
    }

    /// A planned hedge (or another attempt of a hedged call that waited for its service) was
    /// refused at the time it was due, and is used up; others may still be in flight. No attempt
    /// was made, so there is no record of it: [`RetryInfo::refused`] counts it.
    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        let _ = (context, stopped);
    }

    /// Whether the observer wants the end of a call that ended for this reason. `false` spares the
    /// copy of the call's history.
    fn sees_end(&self, stopped: StopReason) -> bool {
        let _ = stopped;
        true
    }

    /// The call is over for the recovery layer. This is the last event of a call, but for
    /// [`response_failed`](Self::response_failed).
    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        let _ = (context, info);
    }

    /// Whether the observer wants [`response_failed`](Self::response_failed). `true` costs each
    /// call a handle whose response is followed after its head. Asked when it is added to a layer.
    fn sees_response(&self) -> bool {
        false
    }

    /// A response failed that the call had ended with ([`StopReason::Committed`]): because its
    /// stream did, with its failure, or for this reason in the client, such as the deadline. Only
    /// if a layer [follows](crate::AttemptReporter::follow) responses, and at most once for a call;
    /// the one event that may come after [`call_ended`](Self::call_ended).
    fn response_failed(
        &self,
        context: &CallContext,
        stopped: StopReason,
        failure: Option<&Failure>,
    ) {
        let _ = (context, stopped, failure);
    }

    /// A backend was ejected or returned, or a circuit opened or closed. Of backends and breakers
    /// that were given this observer; of no single call.
    fn health_changed(&self, event: &HealthEvent) {
        let _ = event;
    }
}

/// Calls both observers in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn sees_success(&self) -> bool {
        self.0.sees_success() || self.1.sees_success()
    }

    fn sees_sent(&self) -> bool {
        self.0.sees_sent() || self.1.sees_sent()
    }

    fn attempt_sent(&self, context: &CallContext) {
        self.0.attempt_sent(context);
        self.1.attempt_sent(context);
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        self.0.attempt_settled(context, record);
        self.1.attempt_settled(context, record);
    }

    fn first_succeeded(&self, context: &CallContext, committed: bool) {
        if self.0.sees_success() {
            self.0.first_succeeded(context, committed);
        }
        if self.1.sees_success() {
            self.1.first_succeeded(context, committed);
        }
    }

    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        self.0.hedge_refused(context, stopped);
        self.1.hedge_refused(context, stopped);
    }

    fn sees_end(&self, stopped: StopReason) -> bool {
        self.0.sees_end(stopped) || self.1.sees_end(stopped)
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        let stopped = info.stopped();
        if stopped.is_none_or(|stopped| self.0.sees_end(stopped)) {
            self.0.call_ended(context, info);
        }
        if stopped.is_none_or(|stopped| self.1.sees_end(stopped)) {
            self.1.call_ended(context, info);
        }
    }

    fn sees_response(&self) -> bool {
        self.0.sees_response() || self.1.sees_response()
    }

    fn response_failed(
        &self,
        context: &CallContext,
        stopped: StopReason,
        failure: Option<&Failure>,
    ) {
        self.0.response_failed(context, stopped, failure);
        self.1.response_failed(context, stopped, failure);
    }

    fn health_changed(&self, event: &HealthEvent) {
        self.0.health_changed(event);
        self.1.health_changed(event);
    }
}

impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn sees_success(&self) -> bool {
        (**self).sees_success()
    }

    fn sees_sent(&self) -> bool {
        (**self).sees_sent()
    }

    fn attempt_sent(&self, context: &CallContext) {
        (**self).attempt_sent(context);
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        (**self).attempt_settled(context, record);
    }

    fn first_succeeded(&self, context: &CallContext, committed: bool) {
        (**self).first_succeeded(context, committed);
    }

    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        (**self).hedge_refused(context, stopped);
    }

    fn sees_end(&self, stopped: StopReason) -> bool {
        (**self).sees_end(stopped)
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        (**self).call_ended(context, info);
    }

    fn sees_response(&self) -> bool {
        (**self).sees_response()
    }

    fn response_failed(
        &self,
        context: &CallContext,
        stopped: StopReason,
        failure: Option<&Failure>,
    ) {
        (**self).response_failed(context, stopped, failure);
    }

    fn health_changed(&self, event: &HealthEvent) {
        (**self).health_changed(event);
    }
}

/// Both observers in order, for layers to which observers are added one by one.
#[cfg(feature = "tokio")]
#[must_use]
pub fn with_observer(
    others: Option<std::sync::Arc<dyn Observer>>,
    observer: std::sync::Arc<dyn Observer>,
) -> std::sync::Arc<dyn Observer> {
    match others {
        Some(others) => std::sync::Arc::new((others, observer)),
        None => observer,
    }
}

/// The log, and the observer if there is one.
#[cfg(feature = "tokio")]
pub(crate) fn with_log(
    observer: Option<std::sync::Arc<dyn Observer>>,
) -> std::sync::Arc<dyn Observer> {
    match observer {
        Some(observer) => std::sync::Arc::new((LogObserver, observer)),
        None => std::sync::Arc::new(LogObserver),
    }
}
