//! What a policy makes of recorded failures.

use reattempt::{CallContext, Verdict};

use super::{Outcome, PolicyText, Protocol, Routes};
use crate::load::CallKind;

/// The classes of one route: which codes are retried depends on its policy.
#[derive(Debug)]
pub(crate) struct Classes {
    protocol: Protocol,
    context: CallContext,
}

impl Classes {
    pub(crate) fn new(text: &PolicyText, routes: &Routes<'_>, kind: &CallKind) -> Self {
        let mut context = CallContext::default();
        if let Some(policy) = routes.policy(kind) {
            context.stamp_policy(policy);
        }
        Self {
            protocol: text.protocol(),
            context,
        }
    }

    /// The verdict on a failure that was recorded with this one.
    pub(crate) fn verdict(&self, recorded: Verdict) -> Verdict {
        let outcome = Outcome::Recorded {
            verdict: recorded,
            stop: false,
            pushback_ms: None,
        };
        self.protocol.verdict(outcome, &self.context)
    }
}
