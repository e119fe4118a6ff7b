//! Which backend an attempt is sent to.

use std::sync::Arc;
use std::time::Instant;

use super::ledger::nanos;
use super::member::Member;
use super::pool::Pool;
use crate::sync::Ordering;

use Ordering::Relaxed;

/// Draws before the list is searched in order.
const DRAWS: usize = 8;

/// Where an attempt of a call may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempted<'a> {
    /// The backends that its call has tried, least recently used first.
    pub tried: &'a [usize],
    /// Another attempt of the call is in flight, and if that fails the call has a further one. So
    /// this one may be a probe: if no backend that the call has tried is in trouble.
    pub may_lose: bool,
}

/// An attempt in flight: give it to [`Pool::ended`] or [`CircuitBreaker::ended`], also if it is
/// dropped. Without that it counts as in flight for ever, and as neither success nor failure; after
/// a probe or a trial the next one then waits for as long as an ejection lasts.
///
/// [`CircuitBreaker::ended`]: super::CircuitBreaker::ended
#[derive(Debug)]
#[must_use = "it counts as in flight until `Pool::ended` or `CircuitBreaker::ended`"]
pub struct Sent {
    pub(super) at: usize,
    pub(super) since: u64,
    pub(super) role: Role,
    untried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Regular,
    /// To an ejected backend, alone.
    Probe,
    /// To an ejected backend, because there is no other.
    LastResort,
}

impl Role {
    /// Of an attempt that is no probe.
    fn at(member: &Member) -> Self {
        if member.is_ejected() {
            Self::LastResort
        } else {
            Self::Regular
        }
    }
}

impl Sent {
    /// The place of the backend in the list.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether there is another backend that the call has not tried and that is not ejected; or, if
    /// all are or should be, one that it has not tried.
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
    /// Chooses the backend of an attempt that is sent now: the less loaded of two that are healthy
    /// and that the call has not tried; then the least recently used healthy one. If all are
    /// ejected, or should be, all count as healthy. `None` if the list is empty.
    // 4 % of the row `backends`.
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
        let (at, member) = if other.load().is_less_than(one.load()) {
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
        // Where none that is left is any better than those that are ejected, all are used. One of
        // those is back if it answers.
        let is_out = |one: &Arc<Member>| one.is_ejected() || one.should_be_ejected();
        let none_is_up = self.members.iter().all(is_out);
        let is_up = |at: usize| none_is_up || !self.members[at].is_ejected();
        // A call may have tried thousands.
        let mut marked = Vec::new();
        if tried.len() > DRAWS {
            marked.resize(self.members.len(), false);
            for at in tried {
                if let Some(marked) = marked.get_mut(*at) {
                    *marked = true;
                }
            }
        }
        let is_new = |at: usize| match marked.get(at) {
            Some(is_tried) => !is_tried,
            None => !tried.contains(&at),
        };
        let other = |at: usize, may: &dyn Fn(usize) -> bool| {
            (0..self.members.len()).any(|other| other != at && may(other))
        };
        // If the backend of the other attempt is in trouble, the caller needs this one.
        let in_trouble = |at: &usize| {
            let member = self.members.get(*at);
            member.is_some_and(|it| it.is_ejected() || it.is_failing())
        };
        if may_lose && !self.common.by_trial && !tried.iter().any(in_trouble) {
            let probe = |at: &usize| {
                let member = &self.members[*at];
                let may = is_new(*at) && member.is_ejected() && member.held_for(now) == 0;
                may && self.common.take_probe(member, now)
            };
            if let Some(at) = (0..self.members.len()).find(probe) {
                let untried = other(at, &|at| is_up(at) && is_new(at));
                return Some(self.begin(at, now, Role::Probe, untried));
            }
        }
        let healthy = |at: usize| is_up(at) && is_new(at);
        let sent = |at: usize, untried| {
            let role = Role::at(&self.members[at]);
            self.begin(at, now, role, untried)
        };
        if let Some(at) = self.choose(now, &healthy) {
            return Some(sent(at, other(at, &healthy)));
        }
        let mut known = tried.iter().filter(|at| **at < self.members.len());
        if let Some(at) = known.clone().find(|at| is_up(**at)) {
            return Some(sent(*at, false));
        }
        // The last ones were ejected meanwhile.
        if let Some(at) = self.choose(now, &is_new) {
            return Some(sent(at, other(at, &is_new)));
        }
        known.next().map(|at| sent(*at, false))
    }

    pub(super) fn begin(&self, at: usize, now: u64, role: Role, untried: bool) -> Sent {
        self.members[at].sent();
        Sent {
            at,
            since: now,
            role,
            untried,
        }
    }

    /// Whether more backends are ejected or held than may be ejected. One may always be held.
    fn too_many_are_out(&self, now: u64) -> bool {
        if now >= self.common.held_until.load(Relaxed) {
            return false;
        }
        let is_out = |one: &&Arc<Member>| one.is_ejected() || one.held_for(now) > 0;
        let out = self.members.iter().filter(is_out).count();
        let others = out.saturating_sub(1);
        others > 0
            && !self
                .common
                .policy
                .load()
                .may_eject(others, self.members.len())
    }

    /// The better one of two that have not pushed back. One that has takes its place if it is drawn
    /// and would answer sooner even so. If all have, or too many are out, the better one of any
    /// two: else a few clients over their own limit would leave all load to one backend.
    fn choose(&self, now: u64, may: &dyn Fn(usize) -> bool) -> Option<usize> {
        let is_free = |at: usize| self.members[at].held_for(now) == 0;
        if self.too_many_are_out(now) {
            return self.better_of_two(now, may);
        }
        let Some(free) = self.better_of_two(now, &|at| may(at) && is_free(at)) else {
            return self.better_of_two(now, may);
        };
        let drawn = self.any(may).filter(|at| !is_free(*at));
        let better = |at: &usize| {
            let (held, free) = (&self.members[*at], &self.members[free]);
            let (held_load, free_load) = (held.load_at(now), free.load_at(now));
            held_load.answers_sooner_than(free_load)
                && held_load.is_less_than(free_load)
                && self.has_its_share(held, now)
        };
        drawn.filter(better).or(Some(free))
    }

    fn better_of_two(&self, now: u64, may: &dyn Fn(usize) -> bool) -> Option<usize> {
        let first = self.any(may)?;
        let Some(second) = self.any(&|at| at != first && may(at)) else {
            return Some(first);
        };
        let (one, other) = (&self.members[first], &self.members[second]);
        let less_loaded = other.load_at(now).is_less_than(one.load_at(now));
        // A slow start leaves nothing to one that has pushed back.
        let [one_is_held, other_is_held] = [one, other].map(|one| one.held_for(now) > 0);
        let takes_other = less_loaded || !(other_is_held || self.has_its_share(one, now));
        let other_too = one_is_held && !other_is_held || self.has_its_share(other, now);
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
        let all = nanos(self.common.policy.load().slow_start).max(1) as f64;
        let share = (now.saturating_sub(joined) as f64 / all).max(0.1);
        (self.common.draw() >> 11) as f64 / (1_u64 << 53) as f64 <= share
    }
}
