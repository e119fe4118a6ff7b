//! The simulator over `HedgeMachine`.

use std::time::Instant;

use reattempt::machine::{Due, FailedAttempt, HedgeAction, HedgeMachine, Planned, Withdrawn};
use reattempt::test_util::CallResult;
use reattempt::{AttemptKind, HedgePolicy, Idempotency, StopReason, Verdict};

use crate::Trace;
use crate::script::Script;
use crate::simulation::{Flight, Simulation};

enum Other<'a> {
    GettingReady {
        planned: Planned,
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
    moves: Vec<(u64, u32)>,
    last: Option<CallResult>,
    expired: bool,
}

/// The result of one instant.
enum Turn {
    Over(CallResult),
    Wait,
    /// The script has no further attempts.
    LeftOut,
}

pub(crate) fn simulate(script: &Script, base: Instant) -> Option<Trace> {
    let policy = script.hedge_policy();
    let idempotency = if script.idempotent {
        Idempotency::Idempotent
    } else {
        Idempotency::Unknown
    };
    let mut call = Simulation::new(script, base);
    let first = call.send(1, AttemptKind::Initial)?;
    let mut hedging = Hedging {
        machine: HedgeMachine::for_call(&policy, idempotency),
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
            Turn::Over(call_result) => return hedging.call.ends_with(call_result),
            Turn::LeftOut => return None,
            Turn::Wait => {}
        }
        let deadline = hedging.call.ends_by();
        let next = hedging.next().into_iter().chain(deadline).min()?;
        if hedging.call.now >= deadline.unwrap_or(u64::MAX) {
            let out: Vec<_> = hedging.out().copied().collect();
            for flight in &out {
                hedging.call.cancelled(flight, Some(StopReason::Deadline));
            }
            return hedging.call.elapsed(out.iter().any(Flight::may_have_left));
        }
        hedging.call.now = next;
    }
}

impl<'a> Hedging<'a> {
    /// Attempts in flight.
    fn out(&self) -> impl Iterator<Item = &Flight<'a>> {
        let others = self.others.iter().filter_map(|other| match other {
            Other::Flight(flight) => Some(flight),
            Other::GettingReady { .. } => None,
        });
        self.first.iter().chain(others)
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
                if let Some(call_result) = self.settle(&first) {
                    return Turn::Over(call_result);
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
                        if let Some(call_result) = self.settle(&flight) {
                            return Turn::Over(call_result);
                        }
                        continue;
                    }
                    // A service that will not be called need not become ready.
                    Other::GettingReady { planned, .. } if self.machine.forbids(planned) => {
                        let planned = *planned;
                        self.others.swap_remove(at);
                        match self.ready(planned, false) {
                            Turn::Wait => continue,
                            turn => return turn,
                        }
                    }
                    Other::GettingReady { planned, ready } => {
                        if ready.is_none() {
                            *ready = self.call.readiness();
                        }
                        match (*planned, *ready) {
                            (_, None) => return Turn::LeftOut,
                            (planned, Some((when, breaks))) if when <= now => {
                                progress = true;
                                self.others.swap_remove(at);
                                match self.ready(planned, breaks) {
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
            let in_vain = |other: &Other<'_>| match other {
                Other::GettingReady { planned, .. } => self.machine.forbids(planned),
                Other::Flight(_) => false,
            };
            progress |= self.others.iter().any(in_vain);
            if !progress {
                return Turn::Wait;
            }
        }
    }

    fn plan(&mut self) -> bool {
        let now = self.call.instant();
        self.machine.pending(now, &self.policy);
        for (at, failed) in &self.moves {
            if *at <= self.call.now && self.machine.nudged(now, *failed) {
                self.call.log.waited(*failed, now);
            }
        }
        self.moves.retain(|(at, _)| *at > self.call.now);
        let mut any_planned = false;
        while let Due::Plan(planned) = self.machine.due(now, &self.policy) {
            self.others.push(Other::GettingReady {
                planned,
                ready: None,
            });
            any_planned = true;
        }
        any_planned
    }

    fn settle(&mut self, flight: &Flight<'_>) -> Option<CallResult> {
        let (verdict, call_result) = (&flight.step.verdict, flight.call_result());
        let facts = self.call.facts(flight);
        let Some(mut failed) = FailedAttempt::new(&facts, verdict) else {
            self.drop_losers();
            self.call.succeeded(flight, *verdict == Verdict::Committed);
            return Some(call_result);
        };
        self.machine.failed(&mut failed);
        let milli_tokens = self.call.count(&failed);
        let action = self.machine.decide(&mut failed, &self.policy);
        self.call.record(failed.record, milli_tokens);
        match action {
            HedgeAction::Return(stopped) => {
                let last = self.last.filter(|_| facts.cut_off);
                self.drop_losers();
                self.call.log.stopped = Some(stopped);
                Some(last.unwrap_or(call_result))
            }
            HedgeAction::Go => {
                if !facts.cut_off || self.last.is_none() {
                    self.last = Some(call_result);
                }
                let may_nudge = self.machine.may_nudge(flight.number);
                if let (Some((after, true)), true) = (flight.step.waiter, may_nudge) {
                    self.moves.push((self.call.now + after, flight.number));
                }
                None
            }
            HedgeAction::Expire => {
                self.expired = true;
                None
            }
        }
    }

    fn drop_losers(&mut self) {
        let out: Vec<_> = self.out().copied().collect();
        for flight in &out {
            self.call.cancelled(flight, None);
        }
    }

    fn ready(&mut self, planned: Planned, breaks: bool) -> Turn {
        let (now, deadline) = (self.call.instant(), self.call.deadline());
        let permitted = if breaks {
            Err(StopReason::Fatal)
        } else {
            self.machine.permit(now, &planned, deadline)
        };
        let asks = planned.kind() == AttemptKind::Hedge;
        let stopped = match permitted {
            Ok(()) if !asks || self.call.allows(planned.after()) => {
                let number = self.machine.sent(planned);
                return match self.call.send(number, planned.kind()) {
                    Some(flight) => {
                        self.others.push(Other::Flight(flight));
                        Turn::Wait
                    }
                    None => Turn::LeftOut,
                };
            }
            Ok(()) => StopReason::Throttled,
            Err(stopped) => stopped,
        };
        self.call.log.refused.push(stopped);
        if let Withdrawn::Over {
            attempt,
            stopped,
            expire,
        } = self.machine.withdrawn(stopped, deadline)
        {
            self.call.log.amend(attempt, stopped);
            if stopped == StopReason::Throttled {
                self.call.log.without_delay(attempt);
            }
            if !expire {
                return Turn::Over(self.last.unwrap_or(CallResult::Broken));
            }
            self.expired = true;
        }
        Turn::Wait
    }
}
