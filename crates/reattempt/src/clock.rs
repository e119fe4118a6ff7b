//! The one clock of the layers: tokio's, so that paused time works everywhere.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// `now + delay`, or a far day where that is past what an `Instant` can say.
pub(crate) fn after(now: Instant, delay: std::time::Duration) -> Instant {
    const FAR: std::time::Duration = std::time::Duration::from_secs(60 * 60 * 24 * 365 * 30);
    now.checked_add(delay.min(FAR)).unwrap_or(now)
}
