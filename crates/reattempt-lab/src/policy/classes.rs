//! What a policy makes of recorded failures.

use std::time::Duration;

use reattempt::{CallContext, ServerPushback, Verdict};

use super::{Outcome, PolicyText, Protocol, Routes};
use crate::load::{CallKind, RecordedFailure};

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
            context.attach_policy(policy);
        }
        Self {
            protocol: text.protocol(),
            context,
        }
    }

    /// The verdict on a failure that was recorded with this one.
    pub(crate) fn verdict(&self, recorded: Verdict) -> Verdict {
        self.protocol.anew(recorded, &self.context)
    }

    /// Whether the policy alone says of a failure what was recorded.
    pub(crate) fn explains(
        &self,
        failure: RecordedFailure,
        pushback_ms: Option<u32>,
        too_long: bool,
    ) -> bool {
        let says = |verdict: &Verdict| {
            let is_safe = verdict.failure().is_some_and(|failure| failure.safe);
            (matches!(verdict, Verdict::Retry(_)), is_safe)
        };
        let outcome = Outcome::Recorded {
            failure,
            pushback_ms,
        };
        let recorded = pushback_ms.map(|ms| {
            let asked = Duration::from_millis(ms.into());
            if too_long {
                ServerPushback::too_long(asked)
            } else {
                ServerPushback::After(asked)
            }
        });
        says(&self.verdict(failure.verdict)) == says(&failure.verdict)
            && (failure.stop || self.protocol.pushback(outcome, &self.context) == recorded)
    }

    /// The most that the policy adds to a server's delay, in milliseconds.
    pub(crate) fn spread_ms(&self) -> u32 {
        self.protocol.spread_ms(&self.context)
    }

    /// The policy's limit of a call, in nanoseconds.
    pub(crate) fn timeout(&self) -> Option<u64> {
        u64::try_from(self.context.policy()?.timeout()?.as_nanos()).ok()
    }
}
