//! What a policy means for one kind of call: verdicts and limits, which all processes share, and
//! strategies, throttles and budgets, of which each process has its own.

use std::sync::Arc;

use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::strategy::{MaxAttempts, NeverRetry};
use reattempt::throttle::HedgeBudget;
use reattempt::{
    CallContext, HasCallContext, HedgePolicy, Idempotency, OnDeadline, Recovery, RetryStrategy,
    RetryThrottle, RoutePolicy, ServerPushback, Verdict,
};
use reattempt_couchbase::kv::Opcode;

use super::protocol::{Outcome, Protocol};
use super::routes::{Routes, request};
use super::{Parsed, Simulated};
use crate::load::{Answer, AnswerCode, CallKind};

/// Outcomes by number: these, then the scenario's answers, then what a tier answers for a failure
/// of its own calls.
pub(crate) const OUTCOME_SUCCESS: u16 = 0;
pub(crate) const OUTCOME_REFUSED: u16 = 1;
pub(crate) const OUTCOME_TIMEOUT: u16 = 2;
const FIRST_ANSWER: usize = 3;

/// The outcome that is this answer of the scenario.
pub(crate) const fn answer_outcome(answer: usize) -> u16 {
    (FIRST_ANSWER + answer) as u16
}

/// What one tier of a policy makes of the outcomes of one kind of call.
#[derive(Debug)]
pub(crate) struct Table {
    verdicts: Vec<Verdict>,
    pushbacks: Vec<Pushback>,
    /// What a server answers when its own call under this policy ends with the outcome.
    passed_on: Vec<u16>,
    /// What it answers when the deadline of that call passes.
    pub(crate) passed_on_deadline: u16,
    pub(crate) idempotent: bool,
    /// In nanoseconds; `u64::MAX` is none.
    pub(crate) timeout: u64,
    pub(crate) attempt_timeout: u64,
    /// Of the protocol's classifier.
    pub(crate) on_deadline: OnDeadline,
    protocol: Protocol,
    outcomes: Vec<Outcome>,
    /// With the route's policy, from which the reader of pushback takes its settings.
    context: CallContext,
}

#[derive(Clone, Copy, Debug)]
enum Pushback {
    Same(Option<ServerPushback>),
    /// The reader adds a random time.
    Spread,
}

/// What a process has of its own for one kind of call.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) way: Way,
    pub(crate) throttle: Option<Arc<dyn RetryThrottle>>,
    pub(crate) budget: Option<Arc<HedgeBudget>>,
}

/// How it recovers.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Retry(Arc<dyn RetryStrategy>),
    Hedge(Arc<HedgePolicy>),
}

impl Own {
    /// Of a process with this policy.
    pub(crate) fn new(routes: &Routes<'_>, kind: &CallKind, by: &Simulated) -> Self {
        let (parsed, policy) = (routes.parsed, routes.policy(kind));
        let layer: Arc<dyn RetryStrategy> = match parsed {
            // The stacks of `reattempt call`.
            Parsed::Grpc(_) => Arc::new(NeverRetry),
            Parsed::Http(_) => Arc::new(standard(&by.randomness)),
            Parsed::Kv(strategy) => Arc::clone(strategy),
        };
        let way = match policy.as_deref().map(RoutePolicy::recovery) {
            Some(Recovery::Retry(strategy)) => Way::Retry(Arc::clone(strategy)),
            Some(Recovery::Hedge(hedge)) => Way::Hedge(Arc::clone(hedge)),
            Some(Recovery::None) => Way::Retry(Arc::new(NeverRetry)),
            _ => Way::Retry(layer),
        };
        let budget = match (parsed, &policy) {
            (Parsed::Http(policies), Some(policy)) => policies.hedge_budget(policy.name()).cloned(),
            _ => None,
        };
        Self {
            way,
            throttle: policy.and_then(|policy| policy.throttle().cloned()),
            budget,
        }
    }
}

/// The strategy of the layers for calls that no route matches.
fn standard(randomness: &Randomness) -> MaxAttempts {
    let (from, to) = (
        std::time::Duration::from_millis(100),
        std::time::Duration::from_secs(20),
    );
    let backoff = Backoff::exponential(from, to).jitter(Jitter::Full);
    MaxAttempts::new(3, backoff.randomness(randomness.clone()))
}

impl Table {
    /// Of this kind of call under this policy, for these answers of the servers, one of which says
    /// that they are overloaded. `inward`: of a server's own calls, which have no
    /// deadline but the policy's. `outer`: the protocol of the calls that the server serves.
    pub(crate) fn new(
        answers: &[Answer],
        overload: usize,
        routes: &Routes<'_>,
        protocol: Protocol,
        kind: &CallKind,
        outer: Option<Protocol>,
    ) -> Option<Self> {
        let outcomes = outcomes(answers, protocol)?;
        let policy = routes.policy(kind);
        let mut context = CallContext::default();
        let timeouts = policy.as_deref().map(|policy| {
            let nanos = |limit: std::time::Duration| u64::try_from(limit.as_nanos()).ok();
            (
                policy.timeout().and_then(nanos),
                policy.attempt_timeout().and_then(nanos),
            )
        });
        let (timeout, attempt_timeout) = timeouts.unwrap_or_default();
        if let Some(policy) = policy {
            context.attach_policy(policy);
        }
        let pushbacks = outcomes.iter().map(|outcome| {
            let read = || protocol.pushback(*outcome, &context);
            let first = read();
            // A spread is a draw of 53 bits.
            match first {
                Some(_) if read() != first => Pushback::Spread,
                first => Pushback::Same(first),
            }
        });
        let pushbacks = pushbacks.collect();
        let own = kind.timeout.filter(|_| outer.is_none());
        let gateways = FIRST_ANSWER + answers.len();
        let passed_on = |outcome: usize| match outcome {
            1 => gateways as u16,
            2 => gateways as u16 + 1,
            _ if outer.is_some_and(|outer| outer != protocol) => answer_outcome(overload),
            // Without the pushback, which was for this caller.
            // Those stand last, in the order of the answers.
            FIRST_ANSWER.. if outcome < gateways => (outcome + answers.len() + 2) as u16,
            _ => outcome as u16,
        };
        Some(Self {
            verdicts: outcomes
                .iter()
                .map(|outcome| protocol.verdict(*outcome, &context))
                .collect(),
            pushbacks,
            passed_on: (0..outcomes.len()).map(passed_on).collect(),
            passed_on_deadline: gateways as u16 + 1,
            idempotent: kind.is_idempotent(protocol),
            timeout: own.unwrap_or(u64::MAX).min(timeout.unwrap_or(u64::MAX)),
            attempt_timeout: attempt_timeout.unwrap_or(u64::MAX),
            on_deadline: protocol.on_deadline(),
            protocol,
            outcomes,
            context,
        })
    }

    pub(crate) fn verdict(&self, outcome: u16) -> &Verdict {
        &self.verdicts[usize::from(outcome)]
    }

    pub(crate) fn pushback(&self, outcome: u16) -> Option<ServerPushback> {
        match self.pushbacks[usize::from(outcome)] {
            Pushback::Same(pushback) => pushback,
            Pushback::Spread => {
                let outcome = self.outcomes[usize::from(outcome)];
                self.protocol.pushback(outcome, &self.context)
            }
        }
    }

    pub(crate) fn passed_on(&self, outcome: u16) -> u16 {
        self.passed_on[usize::from(outcome)]
    }
}

fn outcomes(answers: &[Answer], protocol: Protocol) -> Option<Vec<Outcome>> {
    let mut outcomes = vec![Outcome::Success, Outcome::Refused, Outcome::Timeout];
    for answer in answers {
        let pushback_ms = answer.pushback_ms;
        outcomes.push(match answer.code {
            Some(AnswerCode::Recorded(failure)) => Outcome::Recorded {
                failure,
                pushback_ms,
            },
            ref code => Outcome::Answer {
                code: protocol.code(code.as_ref()).ok()?,
                pushback_ms,
            },
        });
    }
    let plain = |code| Outcome::Answer {
        code,
        pushback_ms: None,
    };
    outcomes.extend([false, true].map(|timed_out| plain(protocol.gateway(timed_out))));
    // Each answer without its pushback, for servers that pass the failure on. In a replay, which
    // has no such servers, there are others than answers.
    for at in FIRST_ANSWER..FIRST_ANSWER + answers.len() {
        outcomes.push(match outcomes[at] {
            Outcome::Answer { code, .. } => plain(code),
            other => other,
        });
    }
    Some(outcomes)
}

impl CallKind {
    /// By the document, else as the protocol says.
    pub(crate) fn is_idempotent(&self, protocol: Protocol) -> bool {
        let natural = || match protocol {
            Protocol::Grpc => false,
            Protocol::Http => request(self).natural_idempotency() == Idempotency::Idempotent,
            Protocol::Kv => self.method == "GET" && Opcode::GET.is_idempotent(),
        };
        self.idempotent.unwrap_or_else(natural)
    }
}
