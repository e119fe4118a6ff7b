//! Instants that may be far away.

use std::time::Duration;

use tokio::time::Instant;

/// Some thirty years: later than any call ends, and within every clock's range.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The instant after this time, which may be [`Duration::MAX`].
pub(crate) fn after(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).unwrap_or_else(|| from + FAR)
}
