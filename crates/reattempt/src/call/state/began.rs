//! When a call began, for the log.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{CallState, TIMED};
use crate::sync::{AtomicU64, Ordering};

/// The instant at which a call first had to wait, in nanoseconds. Read only if the state says that
/// this call wrote it.
#[derive(Debug, Default)]
pub(super) struct Began(AtomicU64);

impl Began {
    #[inline]
    fn note(&self, now: Instant) {
        self.0.store(nanos(now), Ordering::Relaxed);
    }

    /// The time from then to `now` in nanoseconds.
    #[inline]
    fn nanos(&self, now: Instant) -> u64 {
        nanos(now).wrapping_sub(self.0.load(Ordering::Relaxed))
    }

    /// The time from then to `now`.
    fn took(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.nanos(now))
    }
}

impl CallState {
    /// The call has to wait: for its log, this is when it began.
    pub(crate) fn waits(&self, now: impl FnOnce() -> Instant) {
        if self.progress() & TIMED == 0 {
            self.began.note(now());
            self.progress.fetch_or(TIMED, Ordering::Relaxed);
        }
    }

    /// How long the call took up to `now`. A call that never had to wait took no time.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        if self.progress() & TIMED != 0 {
            self.began.took(now)
        } else {
            Duration::ZERO
        }
    }
}

/// Nanoseconds since an instant of this process, modulo 2⁶⁴. A paused clock may be before it.
#[inline]
fn nanos(now: Instant) -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(|| now);
    let whole = |time: Duration| {
        let seconds = time.as_secs().wrapping_mul(1_000_000_000);
        seconds.wrapping_add(time.subsec_nanos().into())
    };
    match now.checked_duration_since(base) {
        Some(since) => whole(since),
        None => whole(base.saturating_duration_since(now)).wrapping_neg(),
    }
}

#[cfg(all(test, feature = "tokio", not(reattempt_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_turned_back_is_measured_too() {
        let base = tokio::time::Instant::now().into_std();
        for (from, to) in [(0, 5), (5, 5), (3, 1_000_000)] {
            let at = |ms| base + Duration::from_millis(ms);
            let began = Began::default();
            began.note(at(from));
            assert_eq!(began.took(at(to)), Duration::from_millis(to - from));
        }
        let hour = Duration::from_secs(3600);
        if let Some(earlier) = base.checked_sub(hour) {
            let began = Began::default();
            began.note(earlier);
            assert_eq!(began.took(base), hour);
        }
    }
}
