//! What a deadline bounds: the call or one attempt of it, and for how long.

use std::time::{Duration, Instant};

use super::Deadline;
use crate::{CallContext, CallDeadline, DeadlineScope, clock};

impl<S, M> Deadline<S, M> {
    /// The scope, and the timeout that applies in it.
    // 2 % of the row `kv-preset`.
    #[inline(always)]
    pub(super) fn bounds(&mut self, context: &CallContext) -> (DeadlineScope, Option<Duration>) {
        if !(context.is_claimed() || self.of_attempts && self.is_of_one(context)) {
            let of_policy = context.policy().and_then(|policy| policy.timeout());
            return (DeadlineScope::Call, self.with_policy(of_policy));
        }
        self.inside_recovery.switch_off();
        let of_policy = context.policy().and_then(|policy| policy.attempt_timeout());
        if of_policy.is_some() {
            context.note_attempt_timeout();
        }
        (DeadlineScope::Attempt, self.with_policy(of_policy))
    }

    /// Whether an [`AttemptDeadlineLayer`](super::AttemptDeadlineLayer) bounds the one attempt of a
    /// call whose policy has no recovery. Otherwise it is in a wrong place.
    #[cold]
    #[inline(never)]
    fn is_of_one(&self, context: &CallContext) -> bool {
        let of_one = context.is_sent_once();
        if !of_one {
            self.inside_recovery.warn(
                "AttemptDeadlineLayer",
                "is outside of any recovery layer, so it bounds the whole call: \
                 put it below RetryLayer or HedgeLayer, or use DeadlineLayer",
            );
        }
        of_one
    }

    #[inline]
    fn with_policy(&self, of_policy: Option<Duration>) -> Option<Duration> {
        match (self.timeout, of_policy) {
            (own, None) => own,
            (Some(own), Some(policy)) if !self.unless_policy => Some(own.min(policy)),
            (_, Some(policy)) => Some(policy),
        }
    }
}

/// The instant to enforce, from the layer's own timeout and a deadline that is already attached;
/// whether it is the layer's own, and whether it has passed. The layer's own starts now: it has
/// passed only if it is zero and the one attached, which began earlier, is the same instant.
#[inline(never)]
pub(super) fn between(
    own: Option<Instant>,
    attached: Option<CallDeadline>,
) -> Option<(Instant, bool, bool)> {
    let outer = match (own, attached) {
        // An outer layer enforces an earlier one: nothing to do here.
        (own, Some(outer)) if outer.enforced && own.is_none_or(|own| own >= outer.at) => {
            return None;
        }
        (Some(own), outer) if outer.is_none_or(|outer| own <= outer.at) => {
            let late = outer.is_some_and(|outer| own == outer.at && outer.passed(clock::now()));
            return Some((own, true, late));
        }
        (_, outer) => outer?,
    };
    Some((outer.at, false, outer.passed(clock::now())))
}
