//! What the pools of one changing list share, and what is due by time.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::event::{HealthCause, HealthChange, HealthEvent, Listeners};
use super::live::LiveHealthPolicy;
use super::member::Member;
use super::options::HealthPolicy;
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
    /// From then on none is held.
    pub(super) held_until: AtomicU64,
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
    pub(super) fn failed_again(&self, member: &Member, lost_since: Option<u64>, now: u64) -> bool {
        let counted = member.failed_again(lost_since, now);
        let Some(most) = self.policy.load().consecutive_failures else {
            return false;
        };
        if counted.unwrap_or_else(|| member.in_a_row()) < most {
            return true;
        }
        // Not at each further one: the lock would be asked by all failing calls.
        if let Some(in_a_row) = counted.filter(|in_a_row| member.is_due(*in_a_row, most)) {
            let cause = HealthCause::FailuresInARow;
            self.with_ledger(|ledger| self.eject(ledger, member, now, cause));
            if !member.is_ejected() {
                member.refused_after(in_a_row);
            }
        }
        member.is_ejected()
    }
}
