//! The simulator over `HedgeMachine`.

use std::time::Instant;

use reattempt::machine::{Due, HedgeAction, HedgeMachine, Permit};
use reattempt::test_util::Told;
use reattempt::{AttemptKind, CallContext, HedgePolicy, Verdict};

use crate::Trace;
use crate::script::{Attempt, Script};
use crate::simulation::Simulation;

struct Flight<'a> {
    ends: u64,
    step: &'a Attempt,
    context: CallContext,
}

enum Other<'a> {
    GettingReady {
        kind: AttemptKind,
        // Known once readiness was requested.
        ready: Option<(u64, bool)>,
    },
    Flight(Flight<'a>),
}

struct Hedging<'a> {
    call: Simulation<'a>,
    policy: HedgePolicy,
    machine: HedgeMachine,
    first: Option<Flight<'a>>,
    others: Vec<Other<'a>>,
    /// When a newer configuration that moved the key arrives, and the failed attempt that requested
    /// it.
    moves: Vec<(u64, CallContext)>,
    last: Option<Told>,
    expired: bool,
}

/// The result of one instant.
enum Turn {
    Over(Told),
    Wait,
    /// The script has no further attempts.
    LeftOut,
}

pub(crate) fn simulate(script: &Script, base: Instant) -> Option<Trace> {
    let policy = script.hedge_policy();
    let mut call = Simulation::new(script, base);
    let first = send(&mut call, 1, AttemptKind::Initial)?;
    // The call's state is taken from its first attempt.
    call.context = first.context.clone();
    let mut hedging = Hedging {
        machine: HedgeMachine::new(&policy),
        call,
        policy,
        first: Some(first),
        others: Vec::new(),
        moves: Vec::new(),
        last: None,
        expired: false,
    };
    loop {
        match hedging.turn() {
            Turn::Over(told) => return hedging.call.told(told),
            Turn::LeftOut => return None,
            Turn::Wait => {}
        }
        let deadline = hedging.call.deadline();
        let next = hedging.next().into_iter().chain(deadline).min()?;
        if hedging.call.now >= deadline.unwrap_or(u64::MAX) {
            let out: Vec<_> = hedging.out().cloned().collect();
            let expired = hedging.expired;
            return hedging.call.elapsed(|call, stopped| {
                for context in &out {
                    call.env(context).cancelled(Some(stopped));
                }
                if !expired {
                    call.env(&call.context).ended(stopped);
                }
            });
        }
        hedging.call.now = next;
    }
}

fn send<'a>(call: &mut Simulation<'a>, number: u32, kind: AttemptKind) -> Option<Flight<'a>> {
    let (step, context) = call.send(number, kind)?;
    Some(Flight {
        ends: call.now + step.after,
        step,
        context,
    })
}

impl<'a> Hedging<'a> {
    /// Attempts in flight.
    fn out(&self) -> impl Iterator<Item = &CallContext> {
        let others = self.others.iter().filter_map(|other| match other {
            Other::Flight(flight) => Some(flight),
            Other::GettingReady { .. } => None,
        });
        self.first
            .iter()
            .chain(others)
            .map(|flight| &flight.context)
    }

    /// The time of the next event.
    fn next(&self) -> Option<u64> {
        let others = self.others.iter().map(|other| match other {
            Other::Flight(flight) => flight.ends,
            Other::GettingReady { ready, .. } => ready.map_or(self.call.now, |(at, _)| at),
        });
        let first = self.first.iter().map(|flight| flight.ends);
        let moves = self.moves.iter().map(|(at, _)| *at);
        let wake = self.machine.wake().filter(|_| !self.expired);
        let wake = wake.map(|at| self.call.fires(at));
        first.chain(others).chain(moves).chain(wake).min()
    }

    /// Handles all events of this instant.
    fn turn(&mut self) -> Turn {
        loop {
            let now = self.call.now;
            if let Some(first) = self.first.take_if(|first| first.ends <= now) {
                if let Some(told) = self.settle(&first) {
                    return Turn::Over(told);
                }
            }
            let mut progress = false;
            let mut at = 0;
            while let Some(other) = self.others.get_mut(at) {
                match other {
                    Other::Flight(flight) if flight.ends <= now => {
                        let Other::Flight(flight) = self.others.swap_remove(at) else {
                            unreachable!("it was a flight")
                        };
                        if let Some(told) = self.settle(&flight) {
                            return Turn::Over(told);
                        }
                        continue;
                    }
                    // A service that will not be called need not become ready.
                    Other::GettingReady { kind, .. } if self.machine.is_frozen() => {
                        let kind = *kind;
                        self.others.swap_remove(at);
                        match self.ready(kind, false) {
                            Turn::Wait => continue,
                            turn => return turn,
                        }
                    }
                    Other::GettingReady { kind, ready } => {
                        if ready.is_none() {
                            *ready = self.call.readiness();
                        }
                        match (*kind, *ready) {
                            (_, None) => return Turn::LeftOut,
                            (kind, Some((when, breaks))) if when <= now => {
                                progress = true;
                                self.others.swap_remove(at);
                                match self.ready(kind, breaks) {
                                    Turn::Wait => continue,
                                    turn => return turn,
                                }
                            }
                            _ => {}
                        }
                    }
                    Other::Flight(_) => {}
                }
                at += 1;
            }
            if self.expired {
                return Turn::Wait;
            }
            progress |= self.plan();
            let readying = |other: &Other<'_>| matches!(other, Other::GettingReady { .. });
            progress |= self.machine.is_frozen() && self.others.iter().any(readying);
            if !progress {
                return Turn::Wait;
            }
        }
    }

    fn plan(&mut self) -> bool {
        let now = self.call.instant();
        self.machine.pending(now, &self.policy);
        for (at, failed) in &self.moves {
            if *at <= self.call.now {
                self.machine.nudged(now, &self.call.env(failed));
            }
        }
        self.moves.retain(|(at, _)| *at > self.call.now);
        let mut planned = false;
        while let Due::Plan(kind) = self.machine.due(now, &self.policy) {
            self.others.push(Other::GettingReady { kind, ready: None });
            planned = true;
        }
        planned
    }

    fn settle(&mut self, flight: &Flight<'_>) -> Option<Told> {
        let (call, verdict) = (&self.call, &flight.step.verdict);
        let told = call.arrived(flight.step, &flight.context);
        let env = call.env(&flight.context);
        if verdict.failure().is_none() {
            self.drop_losers();
            env.succeeded(*verdict == Verdict::Committed);
            return Some(told);
        }
        let found = call.found(flight.step, &flight.context);
        let now = call.instant();
        match self.machine.failed(now, verdict, found, &self.policy, &env) {
            HedgeAction::Return(stopped) => {
                let last = self.last.filter(|_| found.cut_off);
                self.drop_losers();
                env.ended(stopped);
                Some(last.unwrap_or(told))
            }
            HedgeAction::Go => {
                if !found.cut_off || self.last.is_none() {
                    self.last = Some(told);
                }
                if let (Some((after, true)), true) = (
                    flight.step.waiter,
                    self.machine.may_nudge(flight.context.attempt()),
                ) {
                    let moved = self.call.now + after;
                    self.moves.push((moved, flight.context.clone()));
                }
                None
            }
            HedgeAction::Expire => {
                self.expired = true;
                None
            }
        }
    }

    fn drop_losers(&self) {
        for context in self.out() {
            self.call.env(context).cancelled(None);
        }
    }

    fn ready(&mut self, kind: AttemptKind, breaks: bool) -> Turn {
        let context = self.call.context.clone();
        let env = self.call.env(&context);
        let permit = if breaks {
            self.machine.broken(&env)
        } else {
            self.machine.permit(self.call.instant(), kind, &env)
        };
        match permit {
            Permit::Send(number) => match send(&mut self.call, number, kind) {
                Some(flight) => self.others.push(Other::Flight(flight)),
                None => return Turn::LeftOut,
            },
            Permit::Refused => {}
            Permit::Return => return Turn::Over(self.last.unwrap_or(Told::Broken)),
            Permit::Expire => self.expired = true,
        }
        Turn::Wait
    }
}
