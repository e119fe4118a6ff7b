//! The simulator over `RetryMachine`.

use std::time::Instant;

use reattempt::machine::{Action, FailedAttempt, Keep, Resume, RetryMachine};
use reattempt::test_util::CallResult;
use reattempt::{AttemptKind, RetryStrategy, StopReason, Surface, Verdict};

use crate::Trace;
use crate::script::Script;
use crate::simulation::Simulation;

pub(crate) fn simulate(script: &Script, base: Instant) -> Option<Trace> {
    let mut call = Simulation::new(script, base);
    let strategy = script.strategy();
    let mut machine = RetryMachine::default();
    let mut kept: Option<CallResult> = None;
    let (mut number, mut kind) = (1, AttemptKind::Initial);
    loop {
        let flight = call.send(number, kind)?;
        let step = flight.step;
        if !strategy.holds() {
            kept = None;
        }
        if call.too_late(flight.ends) {
            call.cancelled(&flight, Some(StopReason::Deadline));
            return call.elapsed(flight.may_have_left());
        }
        call.now = flight.ends;
        let new = flight.call_result();
        if step.verdict.failure().is_none() {
            call.succeeded(&flight, step.verdict == Verdict::Committed);
            return call.ends_with(new);
        }
        let mut facts = call.facts(&flight);
        facts.config_moved = step.waiter == Some((0, true));
        let failed_at = call.now;
        let mut failed = FailedAttempt::new(&facts, &step.verdict)?;
        machine.failed(&mut failed);
        let milli_tokens = call.count(&failed);
        let allowed = call.allows(Some(failed.failure()));
        let mut action = machine.decide(&mut failed, allowed, &strategy, &());
        if let Action::Ask(mut asked) = action {
            let (takes, decision) = strategy.asked();
            if call.too_late(call.now + takes) {
                asked.failed.stop(StopReason::Deadline);
                call.record(asked.failed.record, milli_tokens);
                return call.elapsed(false);
            }
            call.now += takes;
            let now = call.instant();
            action = machine.decided(&mut asked, now, decision, true, &strategy);
            failed = asked.failed;
        }
        let mut record = failed.record;
        if let Action::Wait(wait) = &action {
            // Without a throttle, and by a bucket, each is paid.
            record.paid = wait.spends.is_some();
        }
        call.log.stopped = record.stopped;
        call.record(record, milli_tokens);
        let wait = match action {
            Action::Return(Surface::Held) => return call.ends_with(kept.unwrap_or(new)),
            Action::Return(Surface::New) => return call.ends_with(new),
            Action::Expire(_) => return call.elapsed(false),
            Action::Wait(wait) => wait,
            Action::Ask(_) => panic!("asked twice"),
        };
        match wait.keep {
            Keep::New => kept = Some(new),
            Keep::Held => {}
            Keep::Error => kept = Some(new).filter(|new| matches!(new, CallResult::Error(_))),
            other => panic!("{other:?}"),
        }
        let mut until = wait.until.map_or(call.now, |until| call.fires(until));
        if let (true, Some((after, true))) = (wait.nudge, step.waiter) {
            let moved = call.now.max(failed_at + after);
            if moved <= until {
                until = moved;
                call.now = until;
                let now = call.instant();
                call.log.waited(number, now);
            }
        }
        call.now = until;
        let (ready, breaks) = call.readiness()?;
        if call.too_late(ready) {
            return call.elapsed(false);
        }
        call.now = ready;
        if breaks {
            call.log.amend(number, StopReason::Fatal);
            return call.ends_with(kept.unwrap_or(CallResult::Broken));
        }
        match Resume::at(call.instant(), call.deadline()) {
            Resume::Send => {}
            Resume::Return => {
                call.log.amend(number, StopReason::Deadline);
                return call.ends_with(kept?);
            }
            Resume::Expire => {
                call.log.amend(number, StopReason::Deadline);
                return call.elapsed(false);
            }
        }
        (number, kind) = (number + 1, wait.kind);
    }
}
