//! Says loudly, once, when a layer stands where it can do nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reattempt_core::{CallContext, Recovery};

/// A warning that is given once; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneWarning(Arc<AtomicBool>);

impl OneWarning {
    #[cold]
    #[inline(never)]
    pub(crate) fn warn(&self, layer: &'static str, what: &'static str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(layer, "{layer} {what}");
        }
    }
}

/// For layers that belong inside the recovery layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct InsideRecovery(OneWarning);

impl InsideRecovery {
    /// `context`: the request's, if it has one; where nothing stamped any, no recovery layer is above.
    #[inline(always)]
    pub(crate) fn check(&self, layer: &'static str, context: Option<&CallContext>) {
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
pub(crate) struct OutsideRecovery(OneWarning);

impl OutsideRecovery {
    #[inline(always)]
    pub(crate) fn check(&self, layer: &'static str, context: &CallContext) {
        if context.is_claimed() {
            self.0.warn(
                layer,
                "is inside the recovery layer, which has already read the call's stamps: \
                 put it above RetryLayer or HedgeLayer",
            );
        }
    }
}

impl OneWarning {
    /// For a recovery layer that acts on a call whose policy has a time limit, and nobody stamped any.
    pub(crate) fn warn_if_unlimited(&self, layer: &'static str, context: &CallContext) {
        let of_policy = |context: &CallContext| context.policy()?.get_call_limit();
        if context.limit().is_none() && of_policy(context).is_some() {
            self.warn(
                layer,
                "got a policy with a time limit for the call, but no DeadlineLayer stands above it",
            );
        }
    }

    /// For a recovery layer with an attempt that is over, whose policy limits attempts: it cannot see below, but a layer that
    /// enforces the limit leaves a mark.
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
    pub(crate) fn warn_if_retry(&self, context: &CallContext) {
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
