//! Attempts: sent, awaited, settled, cancelled.

use reattempt::health::{Attempted, Outcome};
use reattempt::{AttemptKind, ServerPushback};

use super::World;
use super::call::{Attempt, End, NONE, Place, Progress};
use super::events::What;
use super::pick::pick;
use crate::policy::{OUTCOME_SUCCESS, OUTCOME_TIMEOUT};
use crate::random::Words;

impl World<'_> {
    /// Sends an attempt.
    pub(super) fn send(&mut self, id: u32, kind: AttemptKind) {
        let now = self.instant(self.now);
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.sent += 1;
        call.transparent += u32::from(kind == AttemptKind::Transparent);
        let word = Words::of(call.word, call.sent.into()).next();
        let tier = &mut self.tiers[usize::from(call.tier)];
        let process = tier.processes[call.process as usize].as_deref();
        let flight = process
            .and_then(|process| process.pool.as_ref())
            .and_then(|pool| {
                let attempt = Attempted {
                    tried: &call.tried.places(),
                    may_lose: kind == AttemptKind::Hedge
                        && matches!(&call.progress, Progress::Hedge(hedging) if hedging.driver.machine.may_lose()),
                };
                pool.send(now, attempt)
            });
        let backend = match &flight {
            Some(sent) => sent.at() as u32,
            None => pick(tier, call, self.scenario.pick, word),
        };
        call.tried.add(backend);
        let untried = match &flight {
            Some(sent) => sent.untried(),
            None => call.tried.len() < tier.servers.len(),
        };
        let attempt = Attempt {
            call: id,
            number: call.sent,
            kind,
            tier: call.tier,
            awaited: true,
            untried,
            backend,
            process: call.process,
            flight,
            place: Place::Leaving,
            marked: false,
            outcome: OUTCOME_SUCCESS,
            references: 1,
            inner: NONE,
            word,
            call_kind: call.kind,
            counted: call.counted,
            arrived: 0,
            sent: self.now,
        };
        if call.counted {
            self.counts.attempt(call.tier, kind, self.now);
        }
        let limit = tier.tables[usize::from(call.kind)].attempt_timeout;
        let sent = self.attempts.insert(attempt);
        match &mut call.progress {
            Progress::Retry { flight, .. } => *flight = sent,
            Progress::Hedge(hedging) => hedging.flights.push(sent),
        }
        self.events
            .after(self.now, self.there, What::Arrive, sent, 0);
        if limit != u64::MAX {
            let generation = self.attempts.generation(sent);
            self.events
                .after(self.now, limit, What::AttemptTimeout, sent, generation);
        }
    }

    /// An outcome arrives at the caller.
    pub(super) fn settle(&mut self, attempt: u32) {
        let Some(settled) = self.attempts.get_mut(attempt) else {
            return;
        };
        let awaited = std::mem::take(&mut settled.awaited);
        let call = settled.call;
        let end = End {
            attempt,
            number: settled.number,
            kind: settled.kind,
            untried: settled.untried,
            marked: settled.marked,
            outcome: settled.outcome,
            sent: settled.sent,
        };
        if awaited {
            self.learn(attempt, None);
        }
        self.release(attempt);
        if awaited {
            self.settled(call, end);
        }
    }

    /// What the end of an attempt says of its backend: `dropped` if there was no answer.
    fn learn(&mut self, attempt: u32, dropped: Option<Outcome>) {
        let Some(ended) = self.attempts.get_mut(attempt) else {
            return;
        };
        // Only pools have flights.
        let Some(sent) = ended.flight.take() else {
            return;
        };
        let (call_kind, outcome) = (ended.call_kind, ended.outcome);
        let tier = &self.tiers[usize::from(ended.tier)];
        let process = tier.processes[ended.process as usize].as_deref();
        let Some(pool) = process.and_then(|process| process.pool.as_ref()) else {
            return;
        };
        let now = self.instant(self.now);
        if let Some(dropped) = dropped {
            return pool.ended(sent, now, dropped, None);
        }
        let table = &tier.tables[usize::from(call_kind)];
        let hold = table.pushback(outcome).and_then(ServerPushback::delay);
        let said = Outcome::of(table.verdict(outcome));
        pool.ended(sent, now, said, hold);
    }

    /// The timeout of an attempt passes.
    pub(super) fn timed_out(&mut self, attempt: u32) {
        let Some(late) = self.attempts.get(attempt).filter(|late| late.awaited) else {
            return;
        };
        let call = late.call;
        let end = End {
            attempt,
            number: late.number,
            kind: late.kind,
            untried: false,
            marked: false,
            outcome: OUTCOME_TIMEOUT,
            sent: late.sent,
        };
        self.cancel(attempt, Outcome::TimedOut);
        self.settled(call, end);
    }

    /// The caller no longer waits for an attempt.
    pub(super) fn cancel(&mut self, attempt: u32, dropped: Outcome) {
        self.learn(attempt, Some(dropped));
        let Some(cancelled) = self.attempts.get_mut(attempt) else {
            return;
        };
        cancelled.awaited = false;
        if self.scenario.stops && cancelled.place != Place::Left {
            cancelled.references += 1;
            self.events
                .after(self.now, self.there, What::Cancel, attempt, 0);
        }
        self.free(attempt);
    }

    /// Something that referred to an attempt no longer does.
    pub(super) fn release(&mut self, attempt: u32) {
        if let Some(released) = self.attempts.get_mut(attempt) {
            released.references -= 1;
        }
        self.free(attempt);
    }

    fn free(&mut self, attempt: u32) {
        let unused = |attempt: &Attempt| attempt.references == 0 && !attempt.awaited;
        if self.attempts.get(attempt).is_some_and(unused) {
            self.attempts.remove(attempt);
        }
    }
}
