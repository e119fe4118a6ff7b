//! The deadline of a call or of one attempt.

use std::time::{Duration, Instant};

/// `now + delay`; a longer delay than some 31 years is cut.
pub(crate) fn later(now: Instant, delay: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(1_000_000_000);
    // By seconds alone: half of the instructions of `min`.
    let is_far = delay.as_secs() >= FAR.as_secs();
    now.checked_add(if is_far { FAR } else { delay })
        .unwrap_or(now)
}

/// The instant by which a call or one attempt must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDeadline {
    /// The instant.
    pub at: Instant,
    /// True if a `Deadline` layer ends the call at that instant; false if it was only
    /// attached to the request for other code to respect.
    pub enforced: bool,
}

impl CallDeadline {
    /// One that is attached but not enforced.
    #[must_use]
    pub const fn attached(at: Instant) -> Self {
        Self {
            at,
            enforced: false,
        }
    }

    /// One that a layer enforces. A recovery layer may leave the call to it. If no layer ends the
    /// call within a second of its deadline, the call returns the failure that it kept.
    #[must_use]
    pub const fn enforced(at: Instant) -> Self {
        Self { at, enforced: true }
    }

    /// The remaining time; zero once the deadline has passed.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        self.at.saturating_duration_since(now)
    }

    /// True from exactly that instant on.
    #[must_use]
    pub fn passed(&self, now: Instant) -> bool {
        now >= self.at
    }

    /// The earlier of two; at the same instant, the enforced one.
    #[must_use]
    pub fn earlier(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.at < self.at => other,
            Some(other) if other.at == self.at => Self {
                at: self.at,
                enforced: self.enforced || other.enforced,
            },
            _ => self,
        }
    }
}

/// What to do if a delay does not fit before the deadline.
///
/// A strategy decides it ([`RetryStrategy::on_deadline`](crate::RetryStrategy::on_deadline)). One
/// that leaves it open, such as [`MaxAttempts`](crate::strategy::MaxAttempts), returns the failure,
/// except where the protocol's specification caps: see
/// [`Classify::on_deadline`](crate::Classify::on_deadline).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDeadline {
    /// Wait until the deadline, do not send again, and time out (RFC 0049, Capping the Retry
    /// Duration). Where no layer enforces the deadline this means [`OnDeadline::GiveUp`].
    #[default]
    Cap,
    /// Return the failure now: the caller can use the time that is left, and sees what the server
    /// answered.
    GiveUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        use std::sync::LazyLock;
        #[allow(
            clippy::disallowed_methods,
            reason = "a base for arithmetic; no time passes here"
        )]
        static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
        *BASE + Duration::from_millis(ms)
    }

    #[test]
    fn a_deadline_has_passed_from_its_very_instant_on() {
        let timeout = CallDeadline::attached(at(10));
        let seen = [9, 10, 11].map(|now| (timeout.passed(at(now)), timeout.left(at(now))));
        let left = Duration::from_millis(1);
        assert_eq!(
            seen,
            [
                (false, left),
                (true, Duration::ZERO),
                (true, Duration::ZERO)
            ]
        );
    }

    #[test]
    fn of_two_at_one_instant_the_enforced_one_counts() {
        let (early, late) = (CallDeadline::attached(at(1)), CallDeadline::enforced(at(2)));
        assert_eq!(early.earlier(Some(late)), early);
        assert_eq!(late.earlier(Some(early)), early);
        assert_eq!(late.earlier(None), late);
        let attached = CallDeadline::attached(at(2));
        assert_eq!(attached.earlier(Some(late)), late);
        assert_eq!(late.earlier(Some(attached)), late);
        assert_eq!(attached.earlier(Some(attached)), attached);
    }
}
