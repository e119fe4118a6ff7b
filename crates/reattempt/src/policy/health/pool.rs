//! The machine: which backend an attempt is sent to, and what its end means.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::{Common, Ledger, TICK, nanos};
use super::member::Member;
use super::options::HealthPolicy;
use super::{Outcome, Status};
use crate::sync::{AtomicU64, Mutex, Ordering};

use Ordering::Relaxed;

/// The longest that a backend's pushback keeps load from it: a server decides on it.
const LONGEST_HOLD: Duration = Duration::from_secs(60);
/// An attempt that was dropped unanswered after this many times the usual latency is a failure. If
/// no latency is known: after the policy's interval.
const UNANSWERED: u64 = 4;
/// Draws before the list is searched in order.
const DRAWS: usize = 8;

/// The backends of one list and their health.
///
/// [`send`](Self::send) chooses one for an attempt, [`ended`](Self::ended) learns from its end. No
/// clock is read and nothing is waited for: what is due by time is done by the next `send`.
#[derive(Debug)]
pub struct Pool {
    common: Arc<Common>,
    members: Box<[Arc<Member>]>,
}

/// Where an attempt of a call may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempted<'a> {
    /// The backends that its call has tried, least recently used first.
    pub tried: &'a [usize],
    /// Another attempt of the call is in flight, so that this one may be a probe: if no backend
    /// that the call has tried is in trouble.
    pub may_lose: bool,
}

/// An attempt in flight: give it to [`Pool::ended`], also if it is dropped.
#[derive(Debug)]
#[must_use = "it counts as in flight until `Pool::ended`"]
pub struct Sent {
    at: usize,
    since: u64,
    role: Role,
    untried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Regular,
    /// To an ejected backend, alone.
    Probe,
    /// To an ejected backend, because there is no other.
    LastResort,
}

impl Sent {
    /// The place of the backend in the list.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether there is another backend that the call has not tried and that is not ejected; or, if
    /// all are, one that it has not tried.
    #[must_use]
    pub const fn untried(&self) -> bool {
        self.untried
    }

    /// Whether it was sent to an ejected backend, to find out whether that is back.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.role, Role::Probe)
    }
}

/// Below `n`, from 32 random bits.
#[inline]
const fn below(word: u32, n: usize) -> usize {
    ((word as u64).wrapping_mul(n as u64) >> 32) as usize
}

impl Pool {
    /// A pool of this many backends, all healthy, that exists from `now` on.
    #[must_use]
    pub fn new(policy: HealthPolicy, backends: usize, now: Instant) -> Self {
        Self::returning(policy, backends, now, false)
    }

    /// As [`new`](Self::new); `by_trial` if an ejected backend returns by a trial only.
    pub(super) fn returning(
        policy: HealthPolicy,
        backends: usize,
        now: Instant,
        by_trial: bool,
    ) -> Self {
        let members: Vec<_> = (0..backends).map(|_| Arc::new(Member::new(0, 0))).collect();
        let first = nanos(TICK.min(policy.interval)).saturating_add(1);
        let ledger = Ledger {
            members: members.clone(),
            ticked_at: 1,
            sweep_at: nanos(policy.interval).saturating_add(1),
        };
        Self {
            common: Arc::new(Common {
                by_trial,
                epoch: now,
                plain_until: AtomicU64::new(first),
                tick_at: AtomicU64::new(first),
                draws: AtomicU64::new(policy.randomness.bits()),
                usual: AtomicU64::new(0),
                ledger: Mutex::new(ledger),
                policy,
            }),
            members: members.into(),
        }
    }

    /// The pool of a list that has changed: for each of its backends its place in this pool, whose
    /// state it keeps, or `None` for a new one. If more than the allowed share would be ejected
    /// then, those that were ejected first return.
    ///
    /// Attempts that were sent from this pool end in it.
    #[must_use]
    pub fn changed(&self, list: &[Option<usize>], now: Instant) -> Self {
        let common = &self.common;
        let now = common.nanos(now);
        let member = |kept: &Option<usize>| {
            let kept = kept.and_then(|at| self.members.get(at)).map(Arc::clone);
            kept.unwrap_or_else(|| Arc::new(Member::new(common.usual.load(Relaxed), now)))
        };
        let members: Vec<_> = list.iter().map(member).collect();
        common.with_ledger(|ledger| {
            let mut stays = vec![false; self.members.len()];
            for at in list.iter().flatten() {
                if let Some(stays) = stays.get_mut(*at) {
                    *stays = true;
                }
            }
            let all = self.members.iter().zip(&stays);
            all.filter(|(_, stays)| !**stays)
                .for_each(|(member, _)| member.leave());
            let mut ejected: Vec<_> = members.iter().filter(|one| one.is_ejected()).collect();
            ejected.sort_by_key(|member| member.ejected_at());
            for at in 0..ejected.len() {
                let others = ejected.len() - at - 1;
                if !common.policy.may_eject(others, members.len()) {
                    common.uneject(ejected[at], now, 0);
                }
            }
            ledger.members.clone_from(&members);
        });
        common.plain_until.store(0, Relaxed);
        Self {
            common: Arc::clone(common),
            members: members.into(),
        }
    }

    /// Chooses the backend of an attempt that is sent now: the less loaded of two that are healthy
    /// and that the call has not tried; then the least recently used healthy one; if all are
    /// ejected, any. `None` if the list is empty.
    #[inline(always)]
    pub fn send(&self, now: Instant, attempt: Attempted<'_>) -> Option<Sent> {
        let now = self.common.nanos(now);
        let Attempted { tried, may_lose } = attempt;
        if !tried.is_empty() || now >= self.common.plain_until.load(Relaxed) {
            return self.send_with_care(now, tried, may_lose);
        }
        let (word, len) = (self.common.draw(), self.members.len());
        let first = below((word >> 32) as u32, len);
        let second = first
            .wrapping_add(1)
            .wrapping_add(below(word as u32, len.wrapping_sub(1)));
        let from_the_front = second.wrapping_sub(len);
        let second = if second < len { second } else { from_the_front };
        let one: &Member = self.members.get(first)?;
        let other: &Member = self.members.get(second)?;
        let (at, member) = if other.is_less_loaded_than(one) {
            (second, other)
        } else {
            (first, one)
        };
        member.sent();
        Some(Sent {
            at,
            since: now,
            role: Role::Regular,
            untried: len > 1,
        })
    }

    #[cold]
    #[inline(never)]
    fn send_with_care(&self, now: u64, tried: &[usize], may_lose: bool) -> Option<Sent> {
        if now >= self.common.tick_at.load(Relaxed) {
            self.common.tick(now);
        }
        let is_up = |at: usize| !self.members[at].is_ejected();
        let is_new = |at: usize| !tried.contains(&at);
        let other = |at: usize, may: &dyn Fn(usize) -> bool| {
            (0..self.members.len()).any(|other| other != at && may(other))
        };
        // The hedge is the call's rescue if the backend of the other attempt is in trouble.
        let in_trouble = |at: &usize| {
            let member = self.members.get(*at);
            member.is_some_and(|it| it.is_ejected() || it.is_failing())
        };
        if may_lose && !self.common.by_trial && !tried.iter().any(in_trouble) {
            let probe = |at: &usize| is_new(*at) && self.common.take_probe(&self.members[*at], now);
            if let Some(at) = (0..self.members.len()).find(probe) {
                let untried = other(at, &|at| is_up(at) && is_new(at));
                return Some(self.begin(at, now, Role::Probe, untried));
            }
        }
        let healthy = |at: usize| is_up(at) && is_new(at);
        let free = |at: usize| healthy(at) && !self.members[at].is_held(now);
        let chosen = self.choose(now, &free);
        if let Some(at) = chosen.or_else(|| self.choose(now, &healthy)) {
            return Some(self.begin(at, now, Role::Regular, other(at, &healthy)));
        }
        let mut known = tried.iter().filter(|at| **at < self.members.len());
        if let Some(at) = known.clone().find(|at| is_up(**at)) {
            return Some(self.begin(*at, now, Role::Regular, false));
        }
        if let Some(at) = self.choose(now, &is_new) {
            return Some(self.begin(at, now, Role::LastResort, other(at, &is_new)));
        }
        known
            .next()
            .map(|at| self.begin(*at, now, Role::LastResort, false))
    }

    fn begin(&self, at: usize, now: u64, role: Role, untried: bool) -> Sent {
        self.members[at].sent();
        Sent {
            at,
            since: now,
            role,
            untried,
        }
    }

    /// The better one of two.
    fn choose(&self, now: u64, may: &dyn Fn(usize) -> bool) -> Option<usize> {
        let first = self.any(may)?;
        let Some(second) = self.any(&|at| at != first && may(at)) else {
            return Some(first);
        };
        let (one, other) = (&self.members[first], &self.members[second]);
        let takes_other = !self.has_its_share(one, now) || other.is_less_loaded_than(one);
        let other_too = self.has_its_share(other, now);
        Some(if takes_other && other_too {
            second
        } else {
            first
        })
    }

    fn any(&self, may: &dyn Fn(usize) -> bool) -> Option<usize> {
        let len = self.members.len();
        let drawn = || below((self.common.draw() >> 32) as u32, len);
        let quick = (0..DRAWS.min(8 * len)).map(|_| drawn()).find(|at| may(*at));
        quick.or_else(|| {
            let from = drawn();
            (from..len).chain(0..from).find(|at| may(*at))
        })
    }

    /// By chance: whether a backend that returned or joined takes an attempt now. Its share grows
    /// from a tenth to the whole.
    fn has_its_share(&self, member: &Member, now: u64) -> bool {
        let Some(joined) = member.joined_at() else {
            return true;
        };
        let all = nanos(self.common.policy.slow_start).max(1) as f64;
        let share = (now.saturating_sub(joined) as f64 / all).max(0.1);
        (self.common.draw() >> 11) as f64 / (1_u64 << 53) as f64 <= share
    }

    /// An attempt is over: `hold` is for how long the server asked not to be used.
    #[inline]
    pub fn ended(&self, sent: Sent, now: Instant, outcome: Outcome, hold: Option<Duration>) {
        let Some(member) = self.members.get(sent.at) else {
            return;
        };
        let now = self.common.nanos(now);
        let took = now.saturating_sub(sent.since);
        member.over();
        let mut is_failure = false;
        if outcome == Outcome::Success {
            member.succeeded();
            if !member.took(took) {
                self.first_answer(took);
            }
        } else {
            is_failure =
                member.returned_at() <= sent.since && self.unsuccessful(member, now, took, outcome);
        }
        if sent.role != Role::Regular {
            self.probed(member, now, &sent, outcome, is_failure);
        }
        if let Some(hold) = hold {
            let hold = nanos(hold.min(LONGEST_HOLD));
            member.hold(now.saturating_add(hold));
            self.common.plain_until.store(0, Relaxed);
        }
    }

    /// The first answer of a backend: those that have not answered are assumed to be like it, and
    /// not faster than all others.
    #[cold]
    fn first_answer(&self, took: u64) {
        let _ = self
            .common
            .usual
            .compare_exchange(0, took.max(1), Relaxed, Relaxed);
        self.members.iter().for_each(|member| member.assume(took));
    }

    /// Whether it counts as a failure: a drop does if the silence before it was long.
    #[cold]
    fn unsuccessful(&self, member: &Member, now: u64, took: u64, outcome: Outcome) -> bool {
        let usual = self.common.usual.load(Relaxed);
        let unanswered = usual.saturating_mul(UNANSWERED);
        let silence = if usual > 0 {
            unanswered
        } else {
            nanos(self.common.policy.interval)
        };
        member.took_at_least(took);
        if outcome == Outcome::Dropped && took <= silence {
            return false;
        }
        member.failed();
        if member.is_ejected() || !self.common.failed_again(member, now) {
            // One that fails at once is not a fast one.
            member.took_at_least(unanswered);
        }
        true
    }

    #[cold]
    fn probed(&self, member: &Member, now: u64, sent: &Sent, outcome: Outcome, is_failure: bool) {
        let common = &self.common;
        common.with_ledger(|_| {
            // One that hung for so long that another probe took its place decides nothing but that
            // the backend is back.
            let is_own = sent.role == Role::Probe && member.is_probed_since(sent.since);
            if member.is_ejected() {
                if outcome == Outcome::Success {
                    common.uneject(member, now, 0);
                } else if is_own && common.by_trial && is_failure {
                    common.eject_again(member, now);
                } else if is_own && common.by_trial {
                    // It said nothing: the next call tries.
                    member.probe_from(now);
                } else if is_own {
                    member.probe_from(common.next_probe(member, now));
                }
            }
            if is_own {
                member.probe_over();
            }
        });
    }

    /// What is known of each backend, in the order of the list.
    #[must_use]
    pub fn status(&self, now: Instant) -> Vec<Status> {
        let common = &self.common;
        let at = common.nanos(now);
        let status = |member: &Arc<Member>| Status {
            in_flight: member.in_flight(),
            latency: match member.latency() {
                0 | 1 => None,
                known => Some(Duration::from_nanos(known)),
            },
            ejected_for: common
                .ejected_until(member)
                .map(|until| Duration::from_nanos(until.saturating_sub(at))),
        };
        self.members.iter().map(status).collect()
    }

    /// Sends a trial to the only backend, if its ejection is over and no other trial is in flight
    /// (or that one hangs); any attempt if it is not ejected. Otherwise how long it is ejected.
    pub(super) fn admit(&self, now: Instant) -> Result<Sent, Duration> {
        let at = self.ticked(now);
        let member = &self.members[0];
        match self.common.ejected_until(member) {
            None => Ok(self.begin(0, at, Role::Regular, false)),
            Some(_) if self.common.take_probe(member, at) => {
                Ok(self.begin(0, at, Role::Probe, false))
            }
            Some(until) => Err(Duration::from_nanos(until.saturating_sub(at))),
        }
    }

    /// For how long the only backend is still ejected, if an attempt would be refused now.
    #[cfg(feature = "tokio")]
    pub(super) fn would_refuse(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        let member = &self.members[0];
        let until = self.common.ejected_until(member)?;
        let now = self.common.nanos(now());
        let refuses = !self.common.may_probe(member, now);
        refuses.then(|| Duration::from_nanos(until.saturating_sub(now)))
    }

    /// Sends regardless of the state.
    pub(super) fn force(&self, now: Instant) -> Sent {
        let at = self.ticked(now);
        let role = if self.members[0].is_ejected() {
            Role::LastResort
        } else {
            Role::Regular
        };
        self.begin(0, at, role, false)
    }

    /// Does what is due by now.
    fn ticked(&self, now: Instant) -> u64 {
        let now = self.common.nanos(now);
        if now >= self.common.tick_at.load(Relaxed) {
            self.common.tick(now);
        }
        now
    }
}
