//! Simulates one attempt after another.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Call, End, FAR_TOO_MANY, Story, send, start};
use crate::driver::RetryDriver;
use crate::machine::tests::script::{Line, find};
use crate::machine::{Action, FailedAttempt, Keep, Resume};
use crate::{AttemptKind, CallContext, RetryStrategy, StopReason, Surface, Verdict};

#[derive(Debug)]
pub(super) struct RetryCall<'a> {
    call: &'a Call,
    driver: RetryDriver,
    context: CallContext,
    now: Instant,
    kept: u32,
    sent: Vec<(Duration, AttemptKind)>,
}

impl<'a> RetryCall<'a> {
    pub(super) fn begin(call: &'a Call) -> Self {
        let (driver, mut context) = (RetryDriver::default(), call.context.clone());
        context.claim();
        Self {
            call,
            driver,
            context,
            now: start(),
            kept: 0,
            sent: Vec::new(),
        }
    }

    pub(super) fn run(mut self, strategy: &dyn RetryStrategy, script: &[Line]) -> Story {
        let (mut number, mut kind) = (1, AttemptKind::Initial);
        let end = loop {
            let line = find(script, number);
            self.sent.push((self.now - start(), kind));
            assert!(self.sent.len() < FAR_TOO_MANY, "this call never ends");
            send(&mut self.context, number, kind, &line);
            if let Some(end) = self.flight(&line, number) {
                break end;
            }
            match self.failed(&line, number, strategy) {
                Ok(next) => (number, kind) = (number + 1, next),
                Err(end) => break end,
            }
        };
        self.call.story(end, self.now, self.sent, &self.context)
    }

    /// Time passes until the attempt's outcome arrives; `Some` if the call ended.
    fn flight(&mut self, line: &Line, number: u32) -> Option<End> {
        let deadline = self.call.enforced();
        let Some(verdict) = line.verdict else {
            return Some(deadline.map_or(End::Stuck, |_| End::TimedOut));
        };
        self.now += line.takes;
        if deadline.is_some_and(|deadline| self.now > deadline) {
            return Some(End::TimedOut);
        }
        verdict.failure().is_none().then(|| {
            self.call
                .effects(&self.context)
                .succeeded(verdict == Verdict::Committed);
            End::Worked(number)
        })
    }

    /// The attempt failed: returns the kind of the next attempt at its time, or the end.
    fn failed(
        &mut self,
        line: &Line,
        number: u32,
        strategy: &dyn RetryStrategy,
    ) -> Result<AttemptKind, End> {
        let effects = self.call.effects(&self.context);
        let verdict = line.verdict.expect("it was answered");
        let facts = self.call.facts(&self.context, line, self.now);
        let mut failed = FailedAttempt::new(&facts, &verdict).expect("it failed");
        let mut action = effects.failed(&mut self.driver, &mut failed, strategy);
        if let Action::Ask(mut asked) = action {
            let decision = match asked
                .deferred
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(decision) => decision,
                Poll::Pending => return Err(End::Stuck),
            };
            action = self.driver.decided(
                &mut asked,
                self.now,
                decision,
                self.call.replayable,
                strategy,
                effects.throttle(),
            );
            effects.settled(&mut asked.failed.record);
        }
        let wait = match action {
            Action::Return(Surface::New) => return Err(End::Failed(number)),
            Action::Return(Surface::Held) => return Err(End::Failed(self.kept)),
            Action::Expire(_) => return Err(End::TimedOut),
            Action::Ask(_) => panic!("asked twice about one failure"),
            Action::Wait(wait) => wait,
        };
        if wait.keep != Keep::Held {
            self.kept = number;
        }
        let nudged = line
            .moved_after
            .filter(|_| wait.nudge)
            .map(|after| self.now + after);
        let until = wait.until.unwrap_or(self.now);
        self.now = nudged.map_or(until, |nudged| until.min(nudged));
        if nudged.is_some_and(|nudged| nudged <= until) {
            effects.waited_until(self.now);
        }
        self.now += line.ready_after;
        let resume = Resume::at(self.now, effects.context.deadline());
        if resume == Resume::Send {
            self.driver.sent();
            return Ok(wait.kind);
        }
        effects.unsent(&mut self.driver, StopReason::Deadline);
        Err(match resume {
            Resume::Expire => End::TimedOut,
            _ => End::Failed(self.kept),
        })
    }
}
