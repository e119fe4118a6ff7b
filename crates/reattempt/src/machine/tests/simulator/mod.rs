//! Drives both machines on a virtual clock, as the tower futures do on tokio's clock.

mod hedge;
mod retry;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::script::{Line, ms};
use crate::driver::Effects;
use crate::machine::Facts;
use crate::{
    AttemptKind, CallContext, CallDeadline, HedgePolicy, Idempotency, OnDeadline, RetryInfo,
    RetryStrategy, RetryThrottle,
};

/// How a call ended, and with which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine::tests) enum End {
    Worked(u32),
    Failed(u32),
    TimedOut,
    /// The call would wait forever.
    Stuck,
}

/// What happened, with times since the start of the call.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::machine::tests) struct Story {
    pub(in crate::machine::tests) sent: Vec<(Duration, AttemptKind)>,
    pub(in crate::machine::tests) end: End,
    pub(in crate::machine::tests) at: Duration,
    pub(in crate::machine::tests) info: RetryInfo,
}

impl Story {
    /// When each attempt was sent, in whole milliseconds.
    pub(in crate::machine::tests) fn sent_ms(&self) -> Vec<u128> {
        self.sent.iter().map(|(at, _)| at.as_millis()).collect()
    }

    pub(in crate::machine::tests) fn kinds(&self) -> Vec<AttemptKind> {
        self.sent.iter().map(|(_, kind)| *kind).collect()
    }

    pub(in crate::machine::tests) fn count(&self, kind: AttemptKind) -> u32 {
        self.sent.iter().filter(|(_, k)| *k == kind).count() as u32
    }
}

/// The instant at which every simulated call starts.
pub(in crate::machine) fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; the clock is virtual"
    )]
    *START.get_or_init(Instant::now)
}

/// The environment of a simulated call. By default idempotent and replayable, without deadline and
/// throttle.
#[derive(Clone, Debug)]
pub(in crate::machine::tests) struct Call {
    context: CallContext,
    deadline: Option<CallDeadline>,
    replayable: bool,
    transparent: bool,
    on_deadline: OnDeadline,
}

pub(in crate::machine::tests) fn call() -> Call {
    let mut context = CallContext::default();
    context.set_idempotency(Idempotency::Idempotent);
    Call {
        context,
        deadline: None,
        replayable: true,
        transparent: true,
        on_deadline: OnDeadline::GiveUp,
    }
}

impl Call {
    pub(in crate::machine::tests) fn not_idempotent(mut self) -> Self {
        self.context.set_idempotency(Idempotency::NotIdempotent);
        self
    }

    /// A `Deadline` layer ends the call after this many milliseconds.
    pub(in crate::machine::tests) fn within(self, millis: u64) -> Self {
        self.limited(CallDeadline::enforced(start() + ms(millis)))
    }

    /// A limit in milliseconds that no layer enforces.
    pub(in crate::machine::tests) fn asked_within(self, millis: u64) -> Self {
        self.limited(CallDeadline::attached(start() + ms(millis)))
    }

    fn limited(mut self, deadline: CallDeadline) -> Self {
        self.context.attach_deadline(deadline);
        self.deadline = Some(deadline);
        self
    }

    pub(in crate::machine::tests) fn throttled_by(
        mut self,
        throttle: &Arc<impl RetryThrottle + 'static>,
    ) -> Self {
        self.context
            .set_throttle(Arc::clone(throttle) as Arc<dyn RetryThrottle>);
        self
    }

    /// The protocol's specification has calls wait for their deadline.
    pub(in crate::machine::tests) fn capped(mut self) -> Self {
        self.on_deadline = OnDeadline::Cap;
        self
    }

    pub(in crate::machine::tests) fn not_replayable(mut self) -> Self {
        self.replayable = false;
        self
    }

    pub(in crate::machine::tests) fn without_transparent_retries(mut self) -> Self {
        self.transparent = false;
        self
    }

    /// What happened to a call that ended now, or at its limit.
    fn story(
        &self,
        end: End,
        now: Instant,
        sent: Vec<(Duration, AttemptKind)>,
        context: &CallContext,
    ) -> Story {
        let now = match end {
            End::TimedOut => self
                .enforced()
                .expect("only an enforced deadline ends a call"),
            End::Worked(_) | End::Failed(_) | End::Stuck => now,
        };
        Story {
            sent,
            end,
            at: now - start(),
            info: context.info(),
        }
    }

    /// When the `Deadline` layer ends the call.
    fn enforced(&self) -> Option<Instant> {
        self.deadline
            .filter(|deadline| deadline.enforced)
            .map(|deadline| deadline.at)
    }

    fn effects<'a>(&self, context: &'a CallContext) -> Effects<'a> {
        Effects {
            context,
            transparent: self.transparent,
            observer: None,
        }
    }

    /// The facts of an attempt that ends now, as its line in the script has them.
    fn facts(&self, context: &CallContext, line: &Line, now: Instant) -> Facts {
        Facts {
            replayable: self.replayable,
            cut_off: line.cut_off,
            unread: line.unread,
            config_moved: line.moved_after == Some(Duration::ZERO),
            on_deadline: self.on_deadline,
            ..self.effects(context).facts(now)
        }
    }

    /// Simulates the call with this retry strategy.
    pub(in crate::machine::tests) fn retried(
        &self,
        strategy: impl RetryStrategy,
        script: &[Line],
    ) -> Story {
        retry::RetryCall::begin(self).run(&strategy, script)
    }

    /// Simulates the call with this hedging policy.
    pub(in crate::machine::tests) fn hedged(&self, policy: &HedgePolicy, script: &[Line]) -> Story {
        hedge::HedgedCall::begin(self, policy).run(policy, script)
    }
}

/// Sends an attempt with the report of its line.
fn send(context: &mut CallContext, number: u32, kind: AttemptKind, line: &Line) {
    context.start_attempt(number, kind);
    let reporter = context.reporter();
    line.pushback
        .into_iter()
        .for_each(|pushback| reporter.pushback(pushback));
    line.stage
        .into_iter()
        .for_each(|stage| reporter.stage(stage));
    if line.forbids {
        reporter.forbid();
    }
    if line.own_answer {
        reporter.own_answer();
    }
    if line.untried_backend {
        reporter.untried_backend(true);
    }
    if line.moved_after.is_some() {
        reporter.config_coming(Box::pin(std::future::ready(true)));
    }
}

/// More attempts than any call of these tests sends.
const FAR_TOO_MANY: usize = 5000;
