//! The callers' side: calls begin, their attempts are sent and settled, and the policy's own
//! machines decide what follows.

use reattempt::admission::{Admission, Criticality};
use reattempt::driver::{HedgeDriver, count_success};
use reattempt::machine::{Action, Facts, FailedAttempt, HedgeAction, Resume};
use reattempt::policy::{AttemptEnd, EndedAttempt};
use reattempt::{
    AttemptKind, CallDeadline, HedgePolicy, Idempotency, Stage, StopReason, Transparent, reason,
};

use super::call::{Call, End, Failing, Hedging, NONE, Progress};
use super::events::What;
use super::tried::Tried;
use super::{Process, Tier, World};
use crate::policy::{OUTCOME_TIMEOUT, Own, Table, Way};
use crate::report::Gate;

/// What a call that begins is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    pub(super) tier: usize,
    pub(super) process: u32,
    pub(super) kind: u16,
    pub(super) word: u64,
    /// The attempt that it serves.
    pub(super) serves: u32,
    pub(super) counted: bool,
    /// The recorded call that it is, or [`NONE`].
    pub(super) past: u32,
}

impl World<'_> {
    /// A client's call arrives. `None` only if its policy could not be read again.
    pub(super) fn arrive(&mut self) -> Option<()> {
        let Some(arrived) = self.arrivals.take() else {
            return Some(());
        };
        let counted = arrived.at >= self.scenario.warmup;
        if counted {
            self.counts.call(arrived.at);
        }
        self.begin(Beginning {
            tier: 0,
            process: arrived.client,
            kind: arrived.kind,
            word: arrived.word,
            serves: NONE,
            counted,
            past: arrived.past,
        })?;
        Some(())
    }

    /// A call begins: its first attempt is sent. Returns its place.
    pub(super) fn begin(&mut self, of: Beginning) -> Option<u32> {
        self.process(of.tier, of.process)?;
        let (table, own) = parts(&self.tiers, of.tier, of.process, of.kind)?;
        let past = self.past.and_then(|past| past.calls.get(of.past as usize));
        let recorded = past.map_or(u64::MAX, |past| past.timeout);
        let timeout = table.timeout.min(recorded);
        let (progress, hedges) = match &own.way {
            Way::Retry(_) => {
                let flight = NONE;
                let failing = None;
                (Progress::Retry { flight, failing }, false)
            }
            Way::Hedge(policy) => {
                let idempotency = if table.idempotent {
                    Idempotency::Idempotent
                } else {
                    Idempotency::NotIdempotent
                };
                let hedging = Hedging {
                    driver: HedgeDriver::new(policy, idempotency),
                    flights: Vec::new(),
                    wakes: None,
                };
                (Progress::Hedge(Box::new(hedging)), true)
            }
        };
        let id = self.calls.insert(Call {
            tier: of.tier as u8,
            kind: of.kind,
            process: of.process,
            serves: of.serves,
            counted: of.counted,
            past: of.past,
            expires: timeout == 0,
            arrived: self.now,
            deadline: self.now.saturating_add(timeout),
            word: of.word,
            sent: 0,
            transparent: 0,
            marked: false,
            tried: Tried::none(),
            last: OUTCOME_TIMEOUT,
            paid: None,
            progress,
        });
        let admission = admission(&self.tiers, of.tier, of.process);
        if admission.is_some_and(|admission| admission.admit(Criticality::CRITICAL).is_err()) {
            self.end(id, StopReason::Admission);
            return Some(NONE);
        }
        if timeout != u64::MAX {
            let generation = self.calls.generation(id);
            self.events
                .after(self.now, timeout, What::Deadline, id, generation);
        }
        if let Some(leaves) = past.and_then(|past| past.leaves) {
            let generation = self.calls.generation(id);
            self.events
                .after(self.now, leaves, What::Leave, id, generation);
        }
        // The deadline has passed: nothing is sent.
        if timeout == 0 {
            return Some(id);
        }
        self.send(id, AttemptKind::Initial);
        if hedges {
            let now = self.instant(self.now);
            if let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) {
                if let (Progress::Hedge(hedging), Way::Hedge(policy)) =
                    (&mut call.progress, &own.way)
                {
                    hedging.driver.machine.pending(now, policy);
                }
            }
            self.plan_hedges(id);
        }
        Some(id)
    }

    /// An attempt of a call has this outcome.
    pub(super) fn settled(&mut self, id: u32, end: End) {
        let End {
            attempt,
            number,
            kind,
            untried,
            marked,
            outcome,
            sent,
        } = end;
        let now = self.instant(self.now);
        let base = self.simulated.clock.base;
        let Some((call, table, own)) = split(&mut self.calls, &self.tiers, id) else {
            return;
        };
        match &mut call.progress {
            Progress::Retry { flight, .. } => *flight = NONE,
            Progress::Hedge(hedging) => hedging.flights.retain(|flight| *flight != attempt),
        }
        let verdict = table.verdict(outcome);
        let took = std::time::Duration::from_nanos(self.now - sent);
        let teaches = call.progress.teaches(number);
        let feed = |end| match &own.way {
            Way::Hedge(policy) if teaches => feed(policy, number, now, took, end),
            _ => {}
        };
        let throttle = own.throttle.as_deref();
        if verdict.failure().is_none() {
            feed(AttemptEnd::Succeeded);
            if let Some(throttle) = throttle {
                count_success(throttle, number, call.paid.as_ref());
            }
            return self.end(id, StopReason::Success);
        }
        call.last = outcome;
        call.marked = marked && self.tiers[usize::from(call.tier)].text.hop_marks;
        let mut facts = Facts::new(now, number, kind);
        facts.idempotent = table.idempotent;
        facts.deadline = deadline(base, call.deadline);
        facts.on_deadline = table.on_deadline;
        facts.report.pushback = table.pushback(outcome);
        facts.report.untried_backend = untried;
        facts.report.forbidden = call.marked;
        // A layer of the client ends it.
        facts.report.own_answer = outcome == OUTCOME_TIMEOUT;
        if let (Some(_), Some(failure)) = (self.past, verdict.failure()) {
            // A replay has no backends, but the record knows what the transport found.
            let is_open = failure.reason == reason::CIRCUIT_BREAKER_OPEN;
            facts.report.untried_backend |= failure.transparent == Transparent::NextBackend;
            facts.report.circuit_open = is_open;
            facts.report.in_doubt = is_open && failure.stage > Stage::Dispatch;
        }
        let Some(mut failed) = FailedAttempt::new(&facts, verdict) else {
            return;
        };
        if let Some(end) = failed.learned() {
            feed(end);
        }
        match (&mut call.progress, &own.way) {
            (Progress::Retry { failing, .. }, Way::Retry(strategy)) => {
                let failing = failing.get_or_insert_with(Box::<Failing>::default);
                let driver = &mut failing.driver;
                let action = driver.failed(&mut failed, &**strategy, throttle, &());
                let until = match action {
                    Action::Return(_) => {
                        let ended = failed.record.stopped.unwrap_or(StopReason::Fatal);
                        if ended == StopReason::Throttled && call.counted && call.tier == 0 {
                            self.counts.held_back(Gate::Throttled);
                        }
                        return self.fails(id, ended);
                    }
                    Action::Wait(wait) => {
                        if wait.spends.is_some() {
                            call.paid = Some(*failed.failure());
                        }
                        failing.next = wait.kind;
                        wait.until
                    }
                    // No strategy of a policy text takes its time to decide.
                    Action::Expire(_) | Action::Ask(_) => {
                        call.expires = true;
                        return;
                    }
                };
                let at = until.map_or(self.now, |until| self.nanos(until));
                let generation = self.calls.generation(id);
                self.events
                    .after(self.now, at - self.now, What::Resume, id, generation);
            }
            (Progress::Hedge(hedging), Way::Hedge(policy)) => {
                match hedging.driver.failed(&mut failed, policy, throttle) {
                    HedgeAction::Return(stopped) => self.fails(id, stopped),
                    HedgeAction::Expire => call.expires = true,
                    HedgeAction::Go => self.plan_hedges(id),
                }
            }
            _ => {}
        }
    }

    /// The wait before a retry is over.
    pub(super) fn resume(&mut self, id: u32) {
        let (now, base) = (self.instant(self.now), self.simulated.clock.base);
        let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
            return;
        };
        let Progress::Retry {
            failing: Some(failing),
            ..
        } = &mut call.progress
        else {
            return;
        };
        let (driver, next) = (&mut failing.driver, failing.next);
        let resume = Resume::at(now, deadline(base, call.deadline));
        if resume == Resume::Send {
            driver.sent();
            return self.send(id, next);
        }
        driver.unsent(own.throttle.as_deref());
        match resume {
            Resume::Expire => call.expires = true,
            _ => self.end(id, StopReason::Deadline),
        }
    }
}

/// An attempt ended: the policy's hedge delay may learn from it.
pub(super) fn feed(
    policy: &HedgePolicy,
    number: u32,
    now: std::time::Instant,
    took: std::time::Duration,
    end: AttemptEnd,
) {
    if policy.learns() {
        let attempt = EndedAttempt::new(number, now, took, end);
        policy.delay().ended(&attempt);
    }
}

pub(super) fn parts<'t>(
    tiers: &'t [Tier<'_>],
    tier: usize,
    process: u32,
    kind: u16,
) -> Option<(&'t Table, &'t Own)> {
    let tier = &tiers[tier];
    let process: &Process = tier.processes[process as usize].as_deref()?;
    Some((
        &tier.tables[usize::from(kind)],
        &process.own[usize::from(kind)],
    ))
}

/// What a process asks before it sends a call.
pub(super) fn admission<'t>(
    tiers: &'t [Tier<'_>],
    tier: usize,
    process: u32,
) -> Option<&'t Admission> {
    let process = tiers[tier].processes[process as usize].as_deref()?;
    process.admission.as_deref()
}

/// A call, and what its policy has for it.
pub(super) fn split<'c, 't>(
    calls: &'c mut super::slab::Slab<Call>,
    tiers: &'t [Tier<'_>],
    id: u32,
) -> Option<(&'c mut Call, &'t Table, &'t Own)> {
    let call = calls.get_mut(id)?;
    let (table, own) = parts(tiers, usize::from(call.tier), call.process, call.kind)?;
    Some((call, table, own))
}

pub(super) fn deadline(base: std::time::Instant, deadline: u64) -> Option<CallDeadline> {
    let at = || base + std::time::Duration::from_nanos(deadline);
    (deadline != u64::MAX).then(|| CallDeadline::enforced(at()))
}
