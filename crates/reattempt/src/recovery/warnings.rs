//! What a recovery layer warns of, each once for a stack.

use std::sync::Arc;

use crate::{CallContext, Classify, Recovery, RoutePolicy, StackCheck, Verdict};

/// The warnings of one recovery layer.
#[derive(Clone)]
pub(crate) struct Warnings {
    layer: &'static str,
    no_other_layer: StackCheck,
    no_deadline_layer: StackCheck,
    no_attempt_deadline: StackCheck,
    no_outcome_layer: StackCheck,
    unknown_error: StackCheck,
}

impl Warnings {
    pub(crate) fn of(layer: &'static str) -> Self {
        Self {
            layer,
            no_other_layer: StackCheck::default(),
            no_deadline_layer: StackCheck::default(),
            no_attempt_deadline: StackCheck::default(),
            no_outcome_layer: StackCheck::default(),
            unknown_error: StackCheck::default(),
        }
    }

    /// The layer left a call to the other recovery layer, and no layer took it up.
    #[cold]
    pub(super) fn other_layer(&self, context: &CallContext) {
        let recovery = context.policy().map(|policy| policy.recovery());
        let what = match recovery {
            _ if context.strategy().is_some() => RETRIES,
            Some(Recovery::Retry(_)) => RETRIES,
            Some(Recovery::Hedge(_)) => HEDGES,
            _ => return,
        };
        self.no_other_layer.warn(self.layer, what);
    }

    /// The layer has a hedge policy of its own, but a layer above acts on the calls that it is for.
    #[cold]
    pub(crate) fn never_hedges(&self) {
        self.no_other_layer.warn(
            self.layer,
            "has a policy of its own, but a recovery layer above it acts on the calls that it is \
             for: put HedgeLayer above it, or use HedgeLayer::by_policy",
        );
    }

    /// The layer acts on a call with this policy.
    #[inline]
    pub(crate) fn if_timeout_ignored(&self, has_deadline: bool, policy: Option<&Arc<RoutePolicy>>) {
        if !has_deadline && policy.is_some_and(|policy| policy.timeout().is_some()) {
            self.timeout_ignored();
        }
    }

    #[cold]
    #[inline(never)]
    fn timeout_ignored(&self) {
        self.no_deadline_layer.warn(
            self.layer,
            "got a policy with a timeout for the call, but there is no DeadlineLayer above it",
        );
    }

    /// An attempt is over whose policy may have an attempt timeout: the layer cannot see the layers
    /// below, but one that enforces it sets a flag.
    #[inline]
    pub(crate) fn if_attempt_timeout_ignored(&self, context: &CallContext) {
        if context.has_policy() {
            self.attempt_timeout_ignored(context);
        }
    }

    #[inline(never)]
    fn attempt_timeout_ignored(&self, context: &CallContext) {
        let has_timeout = context
            .policy()
            .is_some_and(|policy| policy.attempt_timeout().is_some());
        if has_timeout && !context.has_attempt_timeout() {
            self.no_attempt_deadline.warn(
                self.layer,
                "got a policy with a timeout for each attempt, but there is no DeadlineLayer below it",
            );
        }
    }

    /// A response is committed: the throttle counts it only if a layer below reports how it ends.
    #[inline]
    pub(super) fn if_unfollowed(&self, verdict: &Verdict, context: &CallContext) {
        let counts_later = *verdict == Verdict::Committed && context.throttle().is_some();
        if counts_later && !context.is_followed() {
            self.no_outcome_layer.warn(
                self.layer,
                "got a response that ends later, but no layer below it reports the end to the \
                 throttle, which counts failures only and will refuse all retries: put the layer \
                 that does (OutcomeBodyLayer, GrpcOutcomeLayer) below the recovery layer",
            );
        }
    }

    /// An attempt failed with an error of a type that the classifier may not know.
    #[inline(never)]
    pub(crate) fn if_unknown<C, Res, Err>(
        &self,
        classifier: &C,
        outcome: Result<&Res, &Err>,
        verdict: &Verdict,
    ) where
        C: Classify<Res, Err>,
    {
        let (Err(error), Some(failure)) = (outcome, verdict.failure()) else {
            return;
        };
        if self.unknown_error.has_logged() {
            return;
        }
        if let Some(unknown) = classifier.unknown_error(error, failure) {
            self.unknown_error.warn_of(self.layer, &unknown);
        }
    }
}

const RETRIES: &str = "got a policy that retries, but there is no RetryLayer below or above it";
const HEDGES: &str = "got a policy that hedges, but there is no HedgeLayer below or above it";
