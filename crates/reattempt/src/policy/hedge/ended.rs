//! What a delay that learns is fed.

use std::time::{Duration, Instant};

use super::nanos_of;

/// How an attempt of a hedged call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled, because another attempt of the call ended the call.
    Lost,
    /// It was cancelled with its call, by the caller or a deadline; or it is the first, and its own
    /// deadline ended it.
    Dropped,
}

impl AttemptEnd {
    /// It took as long as it takes; a cancelled one would have taken longer.
    #[inline]
    pub(super) const fn is_own(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// An attempt of a hedged call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedAttempt {
    ended: Ended,
    pub(super) nanos: u64,
    pub(super) number: u32,
    pub(super) end: AttemptEnd,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    At(Instant),
    /// Now: no clock was read for an attempt that ended at its first poll.
    #[cfg(feature = "tokio")]
    Now,
}

impl EndedAttempt {
    /// Attempt `number` (from 1), which was sent `took` before `ended`.
    #[must_use]
    pub fn new(number: u32, ended: Instant, took: Duration, end: AttemptEnd) -> Self {
        Self {
            ended: Ended::At(ended),
            nanos: nanos_of(took),
            number,
            end,
        }
    }

    /// The same for an attempt that took the time between two instants: less than 500 years, as an
    /// `Instant` spans no more.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) const fn now(number: u32, took: Duration, now: Instant, end: AttemptEnd) -> Self {
        Self {
            ended: Ended::At(now),
            nanos: took.as_nanos() as u64,
            number,
            end,
        }
    }

    /// The first attempt, which ended at its first poll and took no time.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) const fn at_once(end: AttemptEnd) -> Self {
        Self {
            ended: Ended::Now,
            nanos: 0,
            number: 1,
            end,
        }
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// When it was sent; the first attempt: when it was first pending, as the delay runs from then.
    #[must_use]
    pub fn sent(&self) -> Instant {
        let ended = self.ended();
        ended.checked_sub(self.took()).unwrap_or(ended)
    }

    /// When it ended. Reads the clock if the attempt ended at its first poll.
    #[must_use]
    pub fn ended(&self) -> Instant {
        match self.ended {
            Ended::At(ended) => ended,
            #[cfg(feature = "tokio")]
            Ended::Now => crate::clock::now(),
        }
    }

    /// How long it took; at least, if it was cancelled.
    #[must_use]
    pub const fn took(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// How it ended.
    #[must_use]
    pub const fn end(&self) -> AttemptEnd {
        self.end
    }
}
