//! How far the clocks of two services may differ.

use std::time::{Duration, SystemTime};

/// The maximum difference between the wall clocks of two services.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSkew(pub(super) Duration);

impl ClockSkew {
    /// The time left at `now` until `at` by another clock; zero when that has certainly passed.
    pub(super) fn left(self, at: SystemTime, now: SystemTime) -> Duration {
        match at.checked_add(self.0) {
            Some(latest) => latest.duration_since(now).unwrap_or_default(),
            // Later than any clock can say.
            None => Duration::MAX,
        }
    }
}
