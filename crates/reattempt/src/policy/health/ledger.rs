//! What the pools of one changing list share, and what is due by time.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::event::{HealthCause, HealthChange, HealthEvent, Listeners};
use super::live::LiveHealthPolicy;
use super::member::Member;
use super::options::{FailurePercentageEjection, HealthPolicy};
use super::sweep;
use crate::sync::{AtomicU64, Mutex, Ordering};

use Ordering::Relaxed;

/// How often estimates that nothing renews are brought nearer to the usual.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// What the pools of one changing list share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) policy: LiveHealthPolicy,
    /// How an ejected backend returns: a circuit breaker's only by a trial.
    pub(super) by_trial: bool,
    pub(super) epoch: Instant,
    /// Until then any two backends may be compared without a look at the rest; 0 while one of them
    /// is ejected, held or new.
    pub(super) plain_until: AtomicU64,
    /// When the next tick is due.
    pub(super) tick_at: AtomicU64,
    pub(super) draws: AtomicU64,
    /// What an answer usually takes, in nanoseconds; 0 if it is not known.
    pub(super) usual: AtomicU64,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) listeners: Listeners,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// Of the newest list.
    pub(super) members: Vec<Arc<Member>>,
    pub(super) ticked_at: u64,
    pub(super) swept_at: u64,
    /// What happened under the lock, until it is released.
    pub(super) events: Vec<HealthEvent>,
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Common {
    #[inline]
    pub(super) fn nanos(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.epoch);
        // An odd number, because 0 is "never". It wraps after 584 years.
        let seconds = passed.as_secs().wrapping_mul(1_000_000_000);
        seconds.wrapping_add(passed.subsec_nanos().into()) | 1
    }

    /// Two random words of 32 bits in one: a Weyl sequence, mixed once. For a choice between
    /// backends that is enough.
    #[inline]
    pub(super) fn draw(&self) -> u64 {
        let word = self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    pub(super) fn with_ledger<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let (result, events) = self.in_ledger(change);
        if !events.is_empty() {
            self.listeners.notify(&events);
        }
        result
    }

    /// Notifies no listener: returns the events.
    pub(super) fn in_ledger<T>(
        &self,
        change: impl FnOnce(&mut Ledger) -> T,
    ) -> (T, Vec<HealthEvent>) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut ledger);
        let events = std::mem::take(&mut ledger.events);
        (result, events)
    }

    /// Ejects, if the share of ejected ones allows it.
    pub(super) fn eject(&self, ledger: &mut Ledger, member: &Member, now: u64, cause: HealthCause) {
        let ejected = ledger.members.iter().filter(|one| one.is_ejected());
        if member.is_ejected()
            || member.is_gone()
            || !self.may_eject(&self.policy.load(), ejected.count(), ledger)
        {
            return;
        }
        self.eject_again(ledger, member, now, cause);
    }

    pub(super) fn eject_again(
        &self,
        ledger: &mut Ledger,
        member: &Member,
        now: u64,
        cause: HealthCause,
    ) {
        member.eject(now);
        ledger.events.push(HealthEvent {
            name: member.name(),
            change: if self.by_trial {
                HealthChange::Opened
            } else {
                HealthChange::Ejected
            },
            cause,
            ejected_for: Some(self.policy.load().ejection_time(member.times())),
        });
        member.probed(now);
        self.plain_until.store(0, Relaxed);
    }

    /// Whether one more backend may be ejected while `ejected` are. A circuit has no other.
    fn may_eject(&self, policy: &HealthPolicy, ejected: usize, ledger: &Ledger) -> bool {
        self.by_trial || policy.may_eject(ejected, ledger.members.len())
    }

    /// A circuit is judged alone.
    const fn of_this_list(&self, by: FailurePercentageEjection) -> FailurePercentageEjection {
        FailurePercentageEjection {
            minimum_hosts: if self.by_trial { 1 } else { by.minimum_hosts },
            ..by
        }
    }

    /// Fewer may be ejected than are: those that were ejected first return.
    pub(super) fn uneject_beyond_share(&self, ledger: &mut Ledger, now: u64) {
        let ejected = ledger.members.iter().filter(|one| one.is_ejected());
        let mut ejected: Vec<_> = ejected.map(Arc::clone).collect();
        ejected.sort_by_key(|member| member.ejected_at());
        let policy = self.policy.load();
        for at in 0..ejected.len() {
            let others = ejected.len() - at - 1;
            if !self.may_eject(&policy, others, ledger) {
                self.uneject(ledger, &ejected[at], now, HealthCause::FewerAllowed);
            }
        }
    }

    /// Takes the right to probe, if it is time and no other probe is in flight. One that hangs for
    /// the time of an ejection is not waited for.
    pub(super) fn take_probe(&self, member: &Member, now: u64) -> bool {
        let policy = self.policy.load();
        let due = if self.by_trial {
            self.ejected_until(member)
        } else {
            let after = |interval| member.probed_at().saturating_add(nanos(interval));
            policy.probe_interval.map(after)
        };
        let patience = nanos(policy.ejection_time(member.times())).max(1);
        due.is_some_and(|due| now >= due) && member.take_probe(now, patience)
    }

    /// When the time of its ejection is over.
    pub(super) fn ejected_until(&self, member: &Member) -> Option<u64> {
        let at = member.ejected_at()?;
        let time = self.policy.load().ejection_time(member.times());
        Some(at.saturating_add(nanos(time)))
    }

    pub(super) fn uneject(
        &self,
        ledger: &mut Ledger,
        member: &Member,
        now: u64,
        cause: HealthCause,
    ) {
        // One that returns by time alone is ejected by its next failure.
        let in_a_row = match cause {
            HealthCause::Time => self.policy.load().failures_in_doubt(),
            _ => 0,
        };
        member.uneject(now, in_a_row);
        ledger.events.push(HealthEvent {
            name: member.name(),
            change: if self.by_trial {
                HealthChange::Closed
            } else {
                HealthChange::Returned
            },
            cause,
            ejected_for: None,
        });
        // What it took when it failed says nothing of it now.
        member.forget(self.usual.load(Relaxed), u64::MAX);
        self.plain_until.store(0, Relaxed);
    }

    /// One more failure or long silence without an answer between. False if it should have ejected
    /// the backend and cannot, because it is off or the share is reached.
    #[cold]
    pub(super) fn failed_again(&self, member: &Member, now: u64) -> bool {
        let in_a_row = member.failed_again();
        let Some(most) = self.policy.load().consecutive_failures else {
            return false;
        };
        // Not at each further one: the lock would be asked by all failing calls.
        if in_a_row >= most && in_a_row % most == 0 {
            let cause = HealthCause::FailuresInARow;
            self.with_ledger(|ledger| self.eject(ledger, member, now, cause));
        }
        in_a_row < most || member.is_ejected()
    }

    /// What is due by time.
    #[cold]
    pub(super) fn tick(&self, now: u64) {
        self.with_ledger(|ledger| {
            if now < self.tick_at.load(Relaxed) {
                return;
            }
            let policy = self.policy.load();
            let (tick, interval) = (nanos(TICK.min(policy.interval)), nanos(policy.interval));
            let ticks = now.saturating_sub(ledger.ticked_at) / tick;
            self.measure(ledger, ticks);
            let due = ledger.swept_at.saturating_add(interval);
            if now >= due {
                // A shorter interval begins now, not before what was done since.
                let due = due.max(ledger.ticked_at);
                self.sweep(ledger, &policy, due, now);
            }
            self.uneject_beyond_share(ledger, now);
            for member in &ledger.members {
                let slow_start = nanos(policy.slow_start);
                let is_over = |joined: u64| now.saturating_sub(joined) >= slow_start;
                if member.joined_at().is_some_and(is_over) {
                    member.has_full_share();
                }
            }
            ledger.ticked_at = now;
            let sweep_at = ledger.swept_at.saturating_add(interval);
            let next = now.saturating_add(tick).min(sweep_at);
            self.tick_at.store(next, Relaxed);
            let is_plain = |member: &Arc<Member>| {
                !member.is_ejected() && !member.is_held(now) && member.joined_at().is_none()
            };
            let plain = ledger.members.iter().all(is_plain);
            self.plain_until
                .store(if plain { next } else { 0 }, Relaxed);
        });
    }

    /// The usual latency is the lower median of those whose last attempt was answered. An estimate
    /// that nothing renews comes nearer to it.
    pub(super) fn measure(&self, ledger: &Ledger, ticks: u64) {
        let (mut known, mut idle) = (Vec::new(), Vec::new());
        for member in &ledger.members {
            if member.take_answered() && !member.is_failing() {
                known.push(member.latency());
            } else if member.in_flight() == 0 {
                idle.push(member);
            }
        }
        if !known.is_empty() {
            let middle = (known.len() - 1) / 2;
            let (_, usual, _) = known.select_nth_unstable(middle);
            self.usual.store(*usual, Relaxed);
        }
        let usual = self.usual.load(Relaxed);
        idle.iter().for_each(|member| member.forget(usual, ticks));
    }

    /// A50, Outlier Detection Behavior.
    fn sweep(&self, ledger: &mut Ledger, policy: &HealthPolicy, due: u64, now: u64) {
        let interval = nanos(policy.interval);
        // Sweeps that no call asked for.
        let intervals = 1 + (now - due) / interval;
        ledger.swept_at = now;
        let counts: Vec<_> = ledger.members.iter().map(|one| one.take_counts()).collect();
        let by_rate = policy.success_rate.iter().flat_map(|by| {
            let outliers = sweep::by_success_rate(&counts, by);
            outliers
                .into_iter()
                .map(|at| (at, by.enforcement_percentage, HealthCause::SuccessRate))
        });
        let by_share = policy.failure_percentage.map(|by| self.of_this_list(by));
        let by_share = by_share.iter().flat_map(|by| {
            let outliers = sweep::by_failure_percentage(&counts, by);
            outliers.into_iter().map(|at| {
                (
                    at,
                    by.enforcement_percentage,
                    HealthCause::FailurePercentage,
                )
            })
        });
        let members = ledger.members.clone();
        for (at, percent, cause) in by_rate.chain(by_share) {
            if policy.randomness.roll() * 100.0 < f64::from(percent) {
                // From when it was due: a late one may find that the time is over.
                self.eject(ledger, &members[at], due, cause);
            }
        }
        for member in &members {
            match self.ejected_until(member) {
                None => member.calm(intervals),
                Some(until) if now > until && !self.by_trial => {
                    self.uneject(ledger, member, now, HealthCause::Time);
                    // Sweeps after the one that it would have returned with.
                    let before = until.checked_sub(due).map_or(0, |time| 1 + time / interval);
                    member.calm(intervals.saturating_sub(before + 1));
                }
                Some(_) => {}
            }
        }
    }
}
