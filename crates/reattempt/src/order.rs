//! Warns once about a layer in a position where it has no effect. For the layers of this crate and
//! of the protocol crates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{AttemptReporter, CallContext, Recovery, Stage};

/// A warning that is logged once; clones share it.
#[derive(Clone, Debug, Default)]
pub struct OneWarning(Arc<AtomicBool>);

impl OneWarning {
    /// Logs what is wrong with this layer, unless this or a clone has already logged.
    #[cold]
    #[inline(never)]
    pub fn warn(&self, layer: &'static str, what: &'static str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(layer, "{layer} {what}");
        }
    }
}

/// For layers that belong inside the recovery layer.
#[derive(Clone, Debug, Default)]
pub struct InsideRecovery(OneWarning);

impl InsideRecovery {
    /// `context`: the request's, if it has one; without a context no recovery layer is above.
    #[inline(always)]
    pub fn check(&self, layer: &'static str, context: Option<&CallContext>) {
        if !context.is_some_and(CallContext::is_claimed) {
            self.0.warn(
                layer,
                "is outside of any recovery layer, so its reports have no effect: \
                 put it below RetryLayer or HedgeLayer",
            );
        }
    }
}

/// For layers that belong outside the recovery layer.
#[derive(Clone, Debug, Default)]
pub struct OutsideRecovery(OneWarning);

impl OutsideRecovery {
    /// `context`: the request's context.
    #[inline(always)]
    pub fn check(&self, layer: &'static str, context: &CallContext) {
        if context.is_claimed() {
            self.0.warn(
                layer,
                "is inside the recovery layer, which has already read the call's options: \
                 put it above RetryLayer or HedgeLayer",
            );
        }
    }
}

/// For classifiers that leave a good response head open
/// ([`Verdict::Committed`](crate::Verdict)) and rely on a layer below to report the end of
/// the response to the throttle: without that layer the throttle counts failures only. Stored in a
/// `static`, because such classifiers are copied.
#[derive(Debug, Default)]
pub struct OpenAnswers(AtomicBool);

impl OpenAnswers {
    /// No warning was logged yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// For the layer below, on a head whose response it follows to its end. A good head is never
    /// classified as a failure, so the stage can serve as the signal.
    #[inline]
    pub fn follow(reporter: &AttemptReporter) {
        reporter.stage(Stage::Response);
    }

    /// For the classifier, when it leaves a head open; `layer` should have followed the response.
    #[inline]
    pub fn check(&self, classifier: &'static str, layer: &'static str, context: &CallContext) {
        let counts = context.is_claimed() && context.throttle().is_some();
        if counts && context.report().stage != Some(Stage::Response) {
            self.warn(classifier, layer);
        }
    }

    #[cold]
    #[inline(never)]
    fn warn(&self, classifier: &'static str, layer: &'static str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                classifier,
                layer,
                "{classifier} leaves answers open until they end, but no layer reports their end to the \
                 throttle, which counts failures only and will refuse all retries: put {layer} below the recovery layer",
            );
        }
    }
}

impl OneWarning {
    /// For a recovery layer that acts on a call whose policy has a time limit, if none is attached.
    pub fn warn_if_unlimited(&self, layer: &'static str, context: &CallContext) {
        let of_policy = |context: &CallContext| context.policy()?.timeout();
        if context.limit().is_none() && of_policy(context).is_some() {
            self.warn(
                layer,
                "got a policy with a time limit for the call, but there is no DeadlineLayer above it",
            );
        }
    }

    /// For a recovery layer with an attempt that is over, whose policy limits attempts: it cannot
    /// see the layers below, but one that enforces the limit sets a flag.
    #[inline(never)]
    pub(crate) fn warn_if_attempts_unlimited(&self, layer: &'static str, context: &CallContext) {
        let limited = context
            .policy()
            .is_some_and(|policy| policy.attempt_timeout().is_some());
        if limited && !context.is_attempt_limited() {
            self.warn(
                layer,
                "got a policy with a time limit for each attempt, but there is no DeadlineLayer below it",
            );
        }
    }

    /// For a hedge layer that sees a retry policy on a call that no retry layer has claimed.
    pub fn warn_if_retry(&self, context: &CallContext) {
        let retries = context
            .policy()
            .is_some_and(|policy| matches!(policy.recovery(), Recovery::Retry(_)));
        if retries || context.strategy().is_some() {
            self.warn(
                "HedgeLayer",
                "got a policy that retries, but there is no RetryLayer below or above it",
            );
        }
    }
}
