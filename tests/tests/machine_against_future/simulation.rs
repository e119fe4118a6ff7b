//! The common part of both simulators: a virtual clock, and a call's context.

use std::sync::Arc;
use std::time::Instant;

use reattempt::machine::Env;
use reattempt::test_util::{Told, ms};
use reattempt::{
    AttemptKind, CallContext, Findings, Idempotency, RetryThrottle, Stopped, TimeLimit, TokenBucket,
};

use crate::Trace;
use crate::script::{Attempt, Script};

pub(crate) struct Simulation<'a> {
    pub(crate) script: &'a Script,
    /// Milliseconds since the call began.
    pub(crate) now: u64,
    pub(crate) context: CallContext,
    base: Instant,
    throttle: Option<Arc<TokenBucket>>,
    sent: Vec<(u64, AttemptKind)>,
    readied: usize,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(script: &'a Script, base: Instant) -> Self {
        let mut context = CallContext::default();
        if script.idempotent {
            context.set_idempotency(Idempotency::Idempotent);
        }
        let throttle = script.throttle();
        if let Some(throttle) = &throttle {
            context.set_throttle(throttle.clone());
        }
        if let Some((after, enforced)) = script.limit {
            let at = base + ms(after);
            context.stamp_limit(TimeLimit { at, enforced });
        }
        context.claim();
        Self {
            script,
            now: 0,
            context,
            base,
            throttle,
            sent: Vec::new(),
            readied: 0,
        }
    }

    pub(crate) fn instant(&self) -> Instant {
        self.base + ms(self.now)
    }

    /// The millisecond at which a timer for this instant fires.
    pub(crate) fn fires(&self, at: Instant) -> u64 {
        let nanos = at.saturating_duration_since(self.base).as_nanos();
        u64::try_from(nanos.div_ceil(1_000_000)).expect("no such delay here")
    }

    pub(crate) fn env<'c>(&self, context: &'c CallContext) -> Env<'c> {
        let mut env = Env::new(context);
        env.transparent = self.script.transparent;
        env
    }

    /// When a layer ends the call.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.script
            .limit
            .filter(|(_, enforced)| *enforced)
            .map(|(at, _)| at)
    }

    /// True if the deadline ends the call before this time.
    pub(crate) fn too_late(&self, at: u64) -> bool {
        self.deadline().is_some_and(|deadline| at > deadline)
    }

    /// Sends an attempt: its step and its context, or `None` at the end of the script.
    pub(crate) fn send(
        &mut self,
        number: u32,
        kind: AttemptKind,
    ) -> Option<(&'a Attempt, CallContext)> {
        let step = self.script.steps.get(number as usize - 1)?;
        let mut context = self.context.clone();
        context.start_attempt(number, kind);
        self.sent.push((self.now, kind));
        if let Some(stage) = step.stage {
            context.reporter().stage(stage);
        }
        Some((step, context))
    }

    /// An attempt ended: applies its reports, and returns what the caller would get.
    pub(crate) fn arrived(&self, step: &Attempt, context: &CallContext) -> Told {
        let reporter = context.reporter();
        if let Some(pushback) = step.pushback {
            reporter.pushback(pushback);
        }
        if step.forbids {
            reporter.forbid();
        }
        if step.waiter.is_some() {
            reporter.config_coming(Box::pin(std::future::pending()));
        }
        if step.as_answer {
            Told::Answer(context.attempt())
        } else {
            Told::Error(context.attempt())
        }
    }

    /// The findings of the attempt, as a driver passes them to its machine.
    pub(crate) fn found(&self, step: &Attempt, context: &CallContext) -> Findings {
        let mut found = context.findings();
        found.cut_off = step.cut_off && !step.as_answer;
        found
    }

    /// The next readiness: when it comes, and whether it is an error.
    pub(crate) fn readiness(&mut self) -> Option<(u64, bool)> {
        let (after, breaks) = *self.script.readiness.get(self.readied)?;
        self.readied += 1;
        Some((self.now + after, breaks))
    }

    pub(crate) fn told(self, told: Told) -> Option<Trace> {
        Some(Trace {
            sent: self.sent,
            told,
            over: self.now,
            ambiguous: None,
            info: self.context.info(),
            milli_tokens: self.throttle.and_then(|throttle| throttle.milli_tokens()),
        })
    }

    /// The deadline ends the call; `drop` has the effect of dropping the recovery layer's future.
    pub(crate) fn elapsed(mut self, drop: impl FnOnce(&Self, Stopped)) -> Option<Trace> {
        self.now = self.deadline().expect("only an enforced limit ends calls");
        let handle = self.context.begin();
        let ambiguous = !self.script.idempotent && handle.in_flight();
        drop(&self, Stopped::Deadline);
        handle.stop(Stopped::Deadline);
        let mut trace = self.told(Told::Elapsed)?;
        trace.ambiguous = Some(ambiguous);
        Some(trace)
    }
}
