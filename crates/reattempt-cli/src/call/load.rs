//! How often a call is made, and when each one begins.

use std::time::Duration;

use crate::printable::complain;

/// More calls than this are summed up.
const SHOWN_EACH: u64 = 10;

/// Calls in flight at a rate. Further ones begin late.
const MOST_IN_FLIGHT: usize = 10_000;

/// A call that begins this much after its time, or more, is late. A timer is precise to a
/// millisecond, and the thread that it wakes may have to wait for a processor.
const LATE: Duration = Duration::from_millis(10);

/// Calls that began late, because as many were in flight as may be, or because the machine cannot
/// make as many per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// Calls that were due, and that the end of the load left out.
    pub(crate) never: u64,
    pub(crate) calls: u64,
    pub(crate) longest: Duration,
}

impl Late {
    /// Counts a call that began this long after its time.
    pub(crate) fn add(&mut self, late: Duration) {
        if late >= LATE {
            self.calls += 1;
            self.longest = self.longest.max(late);
        }
    }

    /// The times of a stalled server, or of a client at its limit, look too good without them.
    pub(crate) fn complain(self) {
        if self.calls > 0 {
            complain!(
                "reattempt call: calls that began late, because {MOST_IN_FLIGHT} were in flight or this machine was too slow: {}, by up to {:.3} s, which the times do not include",
                self.calls,
                self.longest.as_secs_f64()
            );
        }
        if self.never > 0 {
            complain!(
                "reattempt call: calls that never began, for the same reasons: {}",
                self.never
            );
        }
    }
}

/// How often the only call of a document is made, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// `None`: as many as the duration allows.
    pub(crate) calls: Option<u64>,
    /// Calls begin until then.
    pub(crate) duration: Option<Duration>,
    /// Calls begun per second; `None`: each begins when the one before it has ended.
    pub(crate) rate: Option<f64>,
    /// All calls begin at once.
    pub(crate) at_once: bool,
}

impl Load {
    /// Whether there may be more calls than are shown one by one.
    pub(crate) fn is_many(&self) -> bool {
        self.calls.is_none_or(|calls| calls > SHOWN_EACH)
    }

    /// Calls that may be in flight together.
    pub(crate) const fn most_in_flight(&self) -> usize {
        match self.rate {
            Some(_) => MOST_IN_FLIGHT,
            None if self.at_once => usize::MAX,
            None => 1,
        }
    }

    /// When the call of this number, from 0, begins at the earliest.
    pub(crate) fn begins(&self, number: u64) -> Duration {
        let seconds = self.rate.map_or(0.0, |rate| number as f64 / rate);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The calls from this number on that a load with a rate and a duration has left out, now that
    /// it is over.
    pub(crate) fn left_out(&self, number: u64, elapsed: Duration) -> u64 {
        let (Some(rate), Some(duration)) = (self.rate, self.duration) else {
            return 0;
        };
        if elapsed.saturating_sub(self.begins(number)) < LATE {
            return 0;
        }
        let due = (duration.as_secs_f64() * rate).ceil() as u64;
        due.min(self.calls.unwrap_or(u64::MAX))
            .saturating_sub(number)
    }

    /// Whether the call of this number is not made, `elapsed` after the first.
    pub(crate) fn is_over(&self, number: u64, elapsed: Duration) -> bool {
        self.calls.is_some_and(|calls| number >= calls)
            || self.duration.is_some_and(|duration| elapsed >= duration)
    }
}
