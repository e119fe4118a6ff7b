//! What the recovery layers check.

use super::StackCheck;
use crate::{CallContext, Classify, Recovery, Verdict};

impl StackCheck {
    /// For a recovery layer that acts on a call whose policy has a time limit, if none is attached.
    pub(crate) fn warn_if_unlimited(&self, layer: &'static str, context: &CallContext) {
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

    /// For a recovery layer with a committed response: the throttle counts it only if a layer below
    /// reports how it ends.
    #[inline(always)]
    pub(crate) fn warn_if_unfollowed(
        &self,
        layer: &'static str,
        verdict: &Verdict,
        context: &CallContext,
    ) {
        let counts_later = *verdict == Verdict::Committed && context.throttle().is_some();
        if counts_later && !context.report().followed {
            self.warn(
                layer,
                "got a response that ends later, but no layer below it reports the end to the \
                 throttle, which counts failures only and will refuse all retries: put the layer \
                 that does (OutcomeBodyLayer, GrpcOutcomeLayer) below the recovery layer",
            );
        }
    }

    /// For a recovery layer with a failed attempt, if its error is of a type that the classifier
    /// does not know.
    #[inline(never)]
    pub(crate) fn warn_if_unknown<C, Res, Err>(
        &self,
        layer: &'static str,
        classifier: &C,
        outcome: Result<&Res, &Err>,
        verdict: &Verdict,
    ) where
        C: Classify<Res, Err>,
    {
        let (Err(error), Some(failure)) = (outcome, verdict.failure()) else {
            return;
        };
        if self.has_logged() {
            return;
        }
        if let Some(unknown) = classifier.unknown_error(error, failure) {
            self.warn_of(layer, &unknown);
        }
    }

    /// For a hedge layer that sees a retry policy on a call that no retry layer has claimed.
    pub(crate) fn warn_if_retry(&self, context: &CallContext) {
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
