//! How busy a backend is: attempts in flight, and what an answer takes.

use super::Member;
use crate::sync::Ordering;

use Ordering::{Acquire, Relaxed, Release};

/// The latency of a backend that has not answered yet, in nanoseconds.
pub(super) const UNKNOWN: u64 = 1;
/// An attempt that is sent, in the upper half of a member's attempts.
const SENT: u64 = 1 << 32;
/// It answered since the last tick.
const ANSWERED: u64 = 1;
/// Nanoseconds, one millisecond: times up to it are never far above the usual one, which may have
/// been learned from an error that was answered at once.
const SHORT: u64 = 1 << 20;
/// Nanoseconds: 68 seconds. Twice it is no overflow.
const LONGEST: u64 = 1 << 36;

/// What an attempt would meet at a backend.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy::health) struct Load {
    /// Attempts in flight.
    queue: u64,
    /// In nanoseconds.
    wait: u64,
}

impl Load {
    /// However many are in flight: a pushback says when, not how many.
    pub(in crate::policy::health) const fn answers_sooner_than(self, other: Self) -> bool {
        self.wait < other.wait
    }

    /// Waits that differ by less than a factor of two count as equal, because they would say more
    /// of chance than of the backends. So do waits of which one is not known: a backend that never
    /// answers would be the fastest.
    #[inline]
    pub(in crate::policy::health) const fn is_less_than(self, other: Self) -> bool {
        let differ = self.wait > 2 * other.wait || other.wait > 2 * self.wait;
        if differ && self.wait > UNKNOWN && other.wait > UNKNOWN {
            (self.queue + 1).saturating_mul(self.wait)
                < (other.queue + 1).saturating_mul(other.wait)
        } else {
            self.queue < other.queue
        }
    }
}

impl Member {
    /// An attempt is sent to it.
    #[inline]
    pub(in crate::policy::health) fn sent(&self) {
        self.attempts.fetch_add(SENT | 1, Relaxed);
    }

    /// An attempt at it is over.
    #[inline]
    pub(in crate::policy::health) fn over(&self) {
        self.attempts.fetch_sub(1, Relaxed);
    }

    #[inline]
    pub(in crate::policy::health) fn in_flight(&self) -> u32 {
        self.attempts.load(Relaxed) as u32
    }

    /// Under the pool's lock: whether no attempt is in flight, or none was sent since this was last
    /// asked. One whose head is late may be in flight for hours.
    pub(in crate::policy::health) fn gets_no_load(&self) -> bool {
        let attempts = self.attempts.load(Relaxed);
        let sent = (attempts / SENT) as u32;
        self.sent_at_tick.swap(sent, Relaxed) == sent || attempts as u32 == 0
    }

    pub(in crate::policy::health) fn latency(&self) -> u64 {
        self.latency.load(Relaxed)
    }

    /// What an attempt would meet at it, without its pushback.
    #[inline]
    pub(in crate::policy::health) fn load(&self) -> Load {
        Load {
            queue: self.in_flight().into(),
            wait: self.latency.load(Relaxed),
        }
    }

    /// What an attempt would meet at it: the rest of its pushback adds to what an answer takes.
    pub(in crate::policy::health) fn load_at(&self, now: u64) -> Load {
        let load = self.load();
        Load {
            wait: load.wait + self.held_for(now),
            ..load
        }
    }

    /// An answer took this long. False if nothing was known of this backend.
    #[inline]
    pub(in crate::policy::health) fn took(&self, nanos: u64) -> bool {
        let nanos = nanos.clamp(UNKNOWN + 1, LONGEST);
        let smoothed = |old: u64, nanos: u64| {
            if old <= UNKNOWN {
                nanos
            } else {
                old - old / 8 + nanos / 8
            }
        };
        let old = self.latency.load(Relaxed);
        // A lost update of two at one time is one sample less.
        self.latency.store(smoothed(old, nanos), Relaxed);
        // Of the usual time a few slow calls among fast ones are no measure: a time that is far
        // above it counts as twice of it. A tenfold slowdown is learned in some 20 answers.
        let usual = self.answers.load(Relaxed) & !ANSWERED;
        let answers = if usual <= UNKNOWN {
            nanos
        } else {
            smoothed(usual, nanos.min((usual * 2).max(SHORT)))
        };
        self.answers.store(answers | ANSWERED, Relaxed);
        old != UNKNOWN
    }

    /// An attempt without an answer lasted this long: it can only raise the estimate.
    pub(in crate::policy::health) fn took_at_least(&self, nanos: u64) {
        let nanos = nanos.min(LONGEST);
        let old = self.latency.load(Relaxed);
        if nanos > old {
            self.latency.store(old + (nanos - old) / 4, Relaxed);
        }
    }

    /// An estimate that nothing renews goes half the way to the usual one, `ticks` times, so that
    /// the backend is tried again.
    pub(in crate::policy::health) fn forget(&self, usual: u64, ticks: u64) {
        let old = self.latency.load(Relaxed);
        if usual > 0 && old > usual {
            let above = (old - usual) >> ticks.min(63);
            self.latency.store(usual + above, Relaxed);
        }
    }

    /// What its answers take, if it answered since this was last asked.
    pub(in crate::policy::health) fn take_answers(&self, now: u64) -> Option<u64> {
        if self.answers.load(Relaxed) & ANSWERED == 0 {
            return None;
        }
        // In this order: who finds no answer since the last tick finds when it was.
        self.heard_at.store(now, Relaxed);
        let word = self.answers.fetch_and(!ANSWERED, Release);
        Some(word & !ANSWERED)
    }

    /// An attempt that was sent then was dropped unanswered: for how long the backend has answered
    /// none, in nanoseconds. Time without attempts is no silence: it begins anew after a pause that
    /// is longer than `pause`, unless the backend is ejected and gets none.
    pub(in crate::policy::health) fn silent_for(&self, sent: u64, now: u64, pause: u64) -> u64 {
        let has_answered = self.answers.load(Acquire) & ANSWERED != 0;
        let heard = if has_answered {
            now
        } else {
            self.heard_at.load(Relaxed).max(self.returned_at())
        };
        let since = self.silent_since.load(Relaxed);
        let until = self.silent_until.fetch_max(now, Relaxed);
        let is_paused = sent > until.saturating_add(pause) && !self.is_ejected();
        if since > heard && !is_paused {
            return now.saturating_sub(since);
        }
        let since = sent.max(heard.saturating_add(1));
        self.silent_since.store(since, Relaxed);
        now.saturating_sub(since)
    }
}
