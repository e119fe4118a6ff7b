//! What is due by time: estimates that nothing renews, sweeps, and the end of slow starts.

use std::sync::Arc;

use super::event::HealthCause;
use super::ledger::{Common, Ledger, TICK, nanos};
use super::member::Member;
use super::options::{FailurePercentageEjection, HealthPolicy};
use super::sweep;
use crate::sync::{Ordering, fence};

use Ordering::Relaxed;

impl Common {
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
            self.measure(ledger, now, ticks);
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
            let is_held = |member: &Arc<Member>| member.held_for(now) > 0;
            let is_plain = |member: &Arc<Member>| {
                !member.is_ejected() && !is_held(member) && member.joined_at().is_none()
            };
            let plain = ledger.members.iter().all(is_plain);
            self.plain_until
                .store(if plain { next } else { 0 }, Relaxed);
            // One that was held meanwhile is seen now, or `one_is_held` stores after this tick.
            fence(Ordering::SeqCst);
            if plain && ledger.members.iter().any(is_held) {
                self.plain_until.store(0, Relaxed);
            }
        });
    }

    /// A backend is held from now on.
    #[cold]
    pub(super) fn one_is_held(&self, until: u64) {
        self.held_until.fetch_max(until, Relaxed);
        fence(Ordering::SeqCst);
        self.plain_until.store(0, Relaxed);
    }

    /// The usual latency is the lower median of what the answers of those take whose last attempt
    /// was answered. An estimate that nothing renews comes nearer to it.
    pub(super) fn measure(&self, ledger: &Ledger, now: u64, ticks: u64) {
        let (mut known, mut idle) = (Vec::new(), Vec::new());
        for member in &ledger.members {
            let gets_no_load = member.gets_no_load();
            match member.take_answers(now) {
                Some(answers) if !member.is_failing() => known.push(answers),
                _ if gets_no_load => idle.push(member),
                _ => {}
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

    /// A circuit is judged alone.
    const fn of_this_list(&self, by: FailurePercentageEjection) -> FailurePercentageEjection {
        FailurePercentageEjection {
            minimum_hosts: if self.by_trial { 1 } else { by.minimum_hosts },
            ..by
        }
    }
}
