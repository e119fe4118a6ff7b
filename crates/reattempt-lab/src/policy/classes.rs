//! What a policy makes of recorded failures.

use reattempt::record::Entry;
use reattempt::{CallContext, Stage, Transparent, Verdict};

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

    /// The verdict of the policy's classifier on a recorded failure, where the record has what it
    /// looks at: a code, or that no connection was made. Else the recorded one.
    pub(crate) fn verdict(&self, entry: &Entry, recorded: Verdict) -> Verdict {
        if entry.transparent != Transparent::No {
            return recorded;
        }
        let codes = match self.protocol {
            Protocol::Grpc => 1..=16,
            Protocol::Http => 400..=599,
            Protocol::Kv => return recorded,
        };
        let outcome = match (entry.stage, entry.code) {
            (Some(Stage::Response), Some(code)) if codes.contains(&code) => Outcome::Answer {
                code,
                pushback_ms: None,
            },
            (Some(Stage::Dispatch), _) if self.protocol == Protocol::Grpc => Outcome::Refused,
            (Some(Stage::InFlight), _) if self.protocol == Protocol::Grpc => Outcome::Timeout,
            _ => return recorded,
        };
        self.protocol.verdict(outcome, &self.context)
    }
}
