//! The settings that apply to one call: its route's, else the layer's.

use http::{HeaderMap, StatusCode};
use reattempt::{Failure, Stage, Verdict};

use super::HttpClassifier;
use crate::reasons::{HTTP_TOO_MANY_REQUESTS, of_status};
use crate::{StatusSet, TransportFault};

/// A classifier in a layer, and one that overrides it where it sets something.
#[derive(Clone, Copy)]
pub(super) struct InForce<'a> {
    layer: &'a HttpClassifier,
    route: Option<&'a HttpClassifier>,
}

impl<'a> InForce<'a> {
    pub(super) const fn new(layer: &'a HttpClassifier, route: Option<&'a HttpClassifier>) -> Self {
        Self { layer, route }
    }

    fn setting<T>(&self, of: impl Fn(&'a HttpClassifier) -> Option<T>) -> Option<T> {
        self.route.and_then(&of).or_else(|| of(self.layer))
    }

    fn retryable(&self) -> &'a StatusSet {
        let set = self.setting(|classifier| classifier.retryable.as_ref());
        set.unwrap_or(&HttpClassifier::RETRYABLE)
    }

    fn safe(&self) -> &'a StatusSet {
        let set = self.setting(|classifier| classifier.safe.as_ref());
        set.unwrap_or(&HttpClassifier::SAFE)
    }

    /// True if either of the two switched it on.
    pub(super) fn has(&self, switch: impl Fn(&HttpClassifier) -> bool) -> bool {
        switch(self.layer) || self.route.is_some_and(switch)
    }

    /// What a function of the user's says of the response.
    pub(super) fn judged(&self, status: StatusCode, headers: &HeaderMap) -> Option<Verdict> {
        let judge = self.setting(|classifier| classifier.judge_heads)?;
        if self.is_limit_apart(status.as_u16()) {
            return None;
        }
        let mut verdict = judge(status, headers)?;
        if let Verdict::Retry(failure) | Verdict::Fatal(failure) = &mut verdict {
            if self.layer.limits_apart && failure.reason == HTTP_TOO_MANY_REQUESTS {
                return Some(Verdict::Success);
            }
            failure.code = failure.code.or(Some(status.as_u16().into()));
        }
        Some(match verdict {
            Verdict::Success => self.success(),
            verdict => verdict,
        })
    }

    pub(super) const fn is_limit_apart(&self, status: u16) -> bool {
        status == 429 && self.layer.limits_apart
    }

    /// Of a head.
    const fn success(&self) -> Verdict {
        // Set by the stack, not the route: it depends on the `OutcomeBodyLayer`.
        if self.layer.judge_bodies {
            Verdict::Committed
        } else {
            Verdict::Success
        }
    }

    pub(super) fn of_status(&self, status: u16) -> Verdict {
        let listed = self.retryable().contains(status);
        if status < 400 && !listed {
            return self.success();
        }
        if self.is_limit_apart(status) {
            return Verdict::Success;
        }
        let failure = Failure::new(of_status(status), Stage::Response)
            .code(i32::from(status))
            .safe(self.safe().contains(status));
        if listed {
            Verdict::Retry(failure)
        } else {
            Verdict::Fatal(failure)
        }
    }

    pub(super) fn of_fault(&self, fault: TransportFault) -> Verdict {
        let refused = self.setting(|classifier| classifier.refused);
        let retried = self.setting(|classifier| classifier.transport);
        match fault.with_refused(refused.unwrap_or_default()).verdict() {
            Verdict::Retry(failure) if retried == Some(false) => Verdict::Fatal(failure),
            verdict => verdict,
        }
    }
}
