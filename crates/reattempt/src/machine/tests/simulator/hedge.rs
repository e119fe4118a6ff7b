//! Simulates several attempts at once.

use std::time::{Duration, Instant};

use super::{Call, End, FAR_TOO_MANY, Story, send, start};
use crate::driver::HedgeDriver;
use crate::machine::tests::script::{Line, find};
use crate::machine::{Due, FailedAttempt, HedgeAction, Planned, Withdrawn};
use crate::{AttemptKind, CallContext, HedgePolicy, StopReason, Verdict};

struct Flight {
    number: u32,
    context: CallContext,
    line: Line,
    ends: Option<Instant>,
}

pub(super) struct HedgedCall<'a> {
    call: &'a Call,
    driver: HedgeDriver,
    context: CallContext,
    now: Instant,
    flights: Vec<Flight>,
    /// Planned attempts and the instants at which their services are ready.
    readying: Vec<(Instant, Planned)>,
    /// When a newer configuration that moved the key is available, and the failed attempt that
    /// requested it.
    moves: Vec<(Instant, CallContext)>,
    last: u32,
    sent: Vec<(Duration, AttemptKind)>,
}

impl<'a> HedgedCall<'a> {
    pub(super) fn begin(call: &'a Call, policy: &HedgePolicy) -> Self {
        let mut context = call.context.clone();
        context.claim();
        Self {
            call,
            driver: HedgeDriver::new(policy, call.context.idempotency()),
            context,
            now: start(),
            flights: Vec::new(),
            readying: Vec::new(),
            moves: Vec::new(),
            last: 0,
            sent: Vec::new(),
        }
    }

    fn send(&mut self, number: u32, kind: AttemptKind, script: &[Line]) {
        let line = find(script, number);
        self.sent.push((self.now - start(), kind));
        assert!(self.sent.len() < FAR_TOO_MANY, "this call never ends");
        let mut context = self.context.clone();
        send(&mut context, number, kind, &line);
        let ends = line.verdict.map(|_| self.now + line.takes);
        self.flights.push(Flight {
            number,
            context,
            line,
            ends,
        });
    }

    pub(super) fn run(mut self, policy: &HedgePolicy, script: &[Line]) -> Story {
        self.send(1, AttemptKind::Initial, script);
        // The future also polls the first attempt before it reports it as pending.
        let mut end = self.answered(policy);
        self.driver.machine.pending(self.now, policy);
        while end.is_none() {
            self.plan(policy, script);
            let planned = self.driver.machine.wake().into_iter();
            let ready = self.readying.iter().map(|(at, _)| *at);
            let ends = self.flights.iter().filter_map(|flight| flight.ends);
            let moves = self.moves.iter().map(|(at, _)| *at);
            let Some(next) = planned.chain(ready).chain(ends).chain(moves).min() else {
                end = Some(self.call.enforced().map_or(End::Stuck, |_| End::TimedOut));
                break;
            };
            if self.call.enforced().is_some_and(|deadline| next > deadline) {
                end = Some(End::TimedOut);
                break;
            }
            self.now = self.now.max(next);
            end = self.answered(policy).or_else(|| self.ready(script));
            self.moved();
        }
        let end = end.unwrap_or(End::Stuck);
        self.call.story(end, self.now, self.sent, &self.context)
    }

    fn moved(&mut self) {
        for (at, failed) in &self.moves {
            if *at <= self.now {
                let effects = self.call.effects(failed);
                if self.driver.machine.nudged(self.now, failed.attempt()) {
                    effects.waited_until(self.now);
                }
            }
        }
        self.moves.retain(|(at, _)| *at > self.now);
    }

    fn plan(&mut self, policy: &HedgePolicy, script: &[Line]) {
        while let Due::Plan(planned) = self.driver.machine.due(self.now, policy) {
            let number = self.driver.machine.next_number() + self.readying.len() as u32;
            let ready = self.now + find(script, number).ready_after;
            self.readying.push((ready, planned));
        }
    }

    /// Settles every attempt whose outcome has arrived.
    fn answered(&mut self, policy: &HedgePolicy) -> Option<End> {
        let now = self.now;
        while let Some(at) = self
            .flights
            .iter()
            .position(|f| f.ends.is_some_and(|at| at <= now))
        {
            let Flight {
                number,
                context,
                line,
                ..
            } = self.flights.remove(at);
            let (verdict, effects) = (line.verdict?, self.call.effects(&context));
            if verdict.failure().is_none() {
                effects.succeeded(verdict == Verdict::Committed);
                return Some(End::Worked(number));
            }
            let facts = self.call.facts(&context, &line, now);
            // A failure that was cut off is kept only if there is no other.
            let kept = self.last != 0 && line.cut_off;
            let mut failed = FailedAttempt::new(&facts, &verdict).expect("it failed");
            match effects.one_failed(&mut self.driver, &mut failed, policy) {
                HedgeAction::Return(stopped) => {
                    effects.ended(stopped);
                    return Some(End::Failed(if kept { self.last } else { number }));
                }
                HedgeAction::Expire => return Some(End::TimedOut),
                HedgeAction::Go if kept => {}
                HedgeAction::Go => {
                    self.last = number;
                    if let (Some(after), true) =
                        (line.moved_after, self.driver.machine.may_nudge(number))
                    {
                        self.moves.push((now + after, context));
                    }
                }
            }
        }
        None
    }

    /// Handles every planned attempt whose service is ready.
    fn ready(&mut self, script: &[Line]) -> Option<End> {
        let now = self.now;
        // A service that will not be called is not waited for.
        while let Some(at) = self
            .readying
            .iter()
            .position(|(at, planned)| *at <= now || self.driver.machine.forbids(planned))
        {
            let (_, planned) = self.readying.remove(at);
            let effects = self.call.effects(&self.context);
            let deadline = self.context.deadline();
            let permit = if self.call.replayable {
                self.driver
                    .permit(now, planned, deadline, effects.throttle())
            } else {
                Err(self.driver.withdrawn(StopReason::NotReplayable, deadline))
            };
            match permit {
                Ok(number) => self.send(number, planned.kind(), script),
                Err(refused) => {
                    effects.refused(refused);
                    match refused.then {
                        Withdrawn::OthersGoOn => {}
                        Withdrawn::Over { expire: true, .. } => return Some(End::TimedOut),
                        Withdrawn::Over { .. } => return Some(End::Failed(self.last)),
                    }
                }
            }
        }
        None
    }
}
