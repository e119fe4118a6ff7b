//! Says loudly, once, when a layer stands where it can do nothing. For the layers of this crate and
//! of the protocol crates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reattempt_core::{CallContext, Recovery, Reporter, Stage};

/// A warning that is given once; clones share it.
#[derive(Clone, Debug, Default)]
pub struct OneWarning(Arc<AtomicBool>);

impl OneWarning {
    /// Says what is wrong with this layer, unless something was said before.
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
    /// `context`: the request's, if it has one; where nothing stamped any, no recovery layer is
    /// above.
    #[inline(always)]
    pub fn check(&self, layer: &'static str, context: Option<&CallContext>) {
        if !context.is_some_and(CallContext::is_claimed) {
            self.0.warn(
                layer,
                "is outside of any recovery layer, so nobody reads what it finds: \
                 put it below RetryLayer or HedgeLayer",
            );
        }
    }
}

/// For layers that belong outside the recovery layer.
#[derive(Clone, Debug, Default)]
pub struct OutsideRecovery(OneWarning);

impl OutsideRecovery {
    /// `context`: the request's.
    #[inline(always)]
    pub fn check(&self, layer: &'static str, context: &CallContext) {
        if context.is_claimed() {
            self.0.warn(
                layer,
                "is inside the recovery layer, which has already read the call's stamps: \
                 put it above RetryLayer or HedgeLayer",
            );
        }
    }
}

/// For classifiers that leave a good head open ([`Verdict::Committed`](reattempt_core::Verdict))
/// and rely on a layer below to tell the throttle how the answer ended: without it the throttle
/// hears of failures only. Lives in a `static`, because such classifiers are copied.
#[derive(Debug, Default)]
pub struct OpenAnswers(AtomicBool);

impl OpenAnswers {
    /// Nothing was said yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// For the layer below, on a head that it follows to its end. A good head is never weighed as a
    /// failure, so the stage can carry the word.
    #[inline]
    pub fn follow(reporter: &Reporter) {
        reporter.stage(Stage::Response);
    }

    /// For the classifier, when it leaves a head open; `layer` is the one that should have followed
    /// it.
    #[inline]
    pub fn check(&self, classifier: &'static str, layer: &'static str, context: &CallContext) {
        let counts = context.is_claimed() && context.throttle().is_some();
        if counts && context.findings().stage != Some(Stage::Response) {
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
                "{classifier} leaves answers open until they end, but nobody tells the throttle how they do, so it hears of \
                 failures only and will hold all retries back: put {layer} below the recovery layer",
            );
        }
    }
}

impl OneWarning {
    /// For a recovery layer that acts on a call whose policy has a time limit, and nobody stamped
    /// any.
    pub fn warn_if_unlimited(&self, layer: &'static str, context: &CallContext) {
        let of_policy = |context: &CallContext| context.policy()?.get_call_limit();
        if context.limit().is_none() && of_policy(context).is_some() {
            self.warn(
                layer,
                "got a policy with a time limit for the call, but no DeadlineLayer stands above it",
            );
        }
    }

    /// For a recovery layer with an attempt that is over, whose policy limits attempts: it cannot
    /// see below, but a layer that enforces the limit leaves a mark.
    #[inline(never)]
    pub(crate) fn warn_if_attempts_unlimited(&self, layer: &'static str, context: &CallContext) {
        let limited = context
            .policy()
            .is_some_and(|policy| policy.get_attempt_limit().is_some());
        if limited && !context.is_attempt_limited() {
            self.warn(
                layer,
                "got a policy with a time limit for each attempt, but no DeadlineLayer stands below it",
            );
        }
    }

    /// For a hedge layer that sees a policy which retries, and no retry layer that took it.
    pub fn warn_if_retry(&self, context: &CallContext) {
        let retries = context
            .policy()
            .is_some_and(|policy| matches!(policy.get_recovery(), Recovery::Retry(_)));
        if retries || context.strategy().is_some() {
            self.warn(
                "HedgeLayer",
                "got a policy that retries, but no RetryLayer stands below or above it",
            );
        }
    }
}
