//! When a call began, for the log.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU32, Ordering};

/// The instant at which a call first had to wait, in milliseconds: four bytes, which a call's state
/// has to spare. Read only if the state says that this call wrote it.
#[derive(Debug, Default)]
pub(crate) struct Began(AtomicU32);

impl Began {
    pub(crate) fn note(&self, now: Instant) {
        self.0.store(millis(now), Ordering::Relaxed);
    }

    /// The time from then to `now`; right up to 49 days.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        let began = self.0.load(Ordering::Relaxed);
        Duration::from_millis(millis(now).wrapping_sub(began).into())
    }
}

/// Milliseconds since an instant of this process, modulo 2³². A paused clock may be before it.
fn millis(now: Instant) -> u32 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(|| now);
    let since = now.saturating_duration_since(base).as_millis() as u32;
    let before = base.saturating_duration_since(now).as_millis() as u32;
    since.wrapping_sub(before)
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
            assert!(began.took(base).abs_diff(hour) <= Duration::from_millis(1));
        }
    }
}
