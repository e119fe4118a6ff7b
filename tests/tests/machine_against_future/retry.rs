//! The simulator over `RetryMachine`.

use std::time::Instant;

use reattempt::machine::{Action, Keep, Resume, RetryMachine};
use reattempt::test_util::Told;
use reattempt::{AttemptKind, RetryStrategy, Surface, Verdict};

use crate::Trace;
use crate::script::Script;
use crate::simulation::Simulation;

pub(crate) fn simulate(script: &Script, base: Instant) -> Option<Trace> {
    let mut call = Simulation::new(script, base);
    let strategy = script.strategy();
    let mut machine = RetryMachine::new();
    let mut kept: Option<Told> = None;
    let (mut number, mut kind) = (1, AttemptKind::Initial);
    loop {
        let (step, context) = call.send(number, kind)?;
        let env = call.env(&context);
        if !strategy.holds() {
            kept = None;
        }
        if call.too_late(call.now + step.after) {
            return call.elapsed(|_, stopped| {
                env.cancelled(Some(stopped));
                machine.dropped(stopped, &env);
            });
        }
        call.now += step.after;
        let new = call.arrived(step, &context);
        if step.verdict.failure().is_none() {
            env.succeeded(step.verdict == Verdict::Committed);
            return call.told(new);
        }
        let mut found = call.found(step, &context);
        found.config_moved = step.waiter == Some((0, true));
        let failed_at = call.now;
        let mut action = machine.failed(call.instant(), &step.verdict, found, &strategy, &env);
        if let Action::Ask(_) = action {
            let (takes, decision) = strategy.asked();
            if call.too_late(call.now + takes) {
                return call.elapsed(|_, stopped| machine.dropped(stopped, &env));
            }
            call.now += takes;
            action = machine.decided(call.instant(), decision, &strategy, &env);
        }
        let wait = match action {
            Action::Return(Surface::Held) => return call.told(kept.unwrap_or(new)),
            Action::Return(Surface::New) => return call.told(new),
            Action::Expire => return call.elapsed(|_, _| ()),
            Action::Wait(wait) => wait,
            Action::Ask(_) => panic!("asked twice"),
        };
        match wait.keep {
            Keep::New => kept = Some(new),
            Keep::Held => {}
            Keep::Error => kept = Some(new).filter(|new| matches!(new, Told::Error(_))),
        }
        let mut nudged = false;
        let mut until = wait.until.map_or(call.now, |until| call.fires(until));
        if let (true, Some((after, true))) = (wait.nudge, step.waiter) {
            let moved = call.now.max(failed_at + after);
            if moved <= until {
                until = moved;
                nudged = true;
            }
        }
        call.now = until;
        if nudged {
            machine.nudged(call.instant(), &env);
        }
        let (ready, breaks) = call.readiness()?;
        if call.too_late(ready) {
            return call.elapsed(|_, stopped| machine.dropped(stopped, &env));
        }
        call.now = ready;
        if breaks {
            machine.broken(&env);
            return call.told(kept.unwrap_or(Told::Broken));
        }
        match machine.resume(call.instant(), &env) {
            Resume::Send => {}
            Resume::Return => return call.told(kept?),
            Resume::Expire => return call.elapsed(|_, _| ()),
        }
        (number, kind) = (number + 1, wait.kind);
    }
}
