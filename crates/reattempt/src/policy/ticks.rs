//! Time for throttles: passed since a start, by a clock that simulators replace.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A start and a clock.
#[derive(Clone)]
pub(in crate::policy) struct Ticks {
    start: Instant,
    /// `None`: the clock of the layers.
    clock: Option<Arc<dyn Fn() -> Instant + Send + Sync>>,
}

impl Ticks {
    /// From now on, by tokio's clock with feature `tokio`, and by the system's otherwise.
    pub(in crate::policy) fn new() -> Self {
        Self {
            start: now(),
            clock: None,
        }
    }

    /// From now on, by this clock.
    pub(in crate::policy) fn by(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self {
            start: clock(),
            clock: Some(Arc::new(clock)),
        }
    }

    /// The time since the start.
    pub(in crate::policy) fn elapsed(&self) -> Duration {
        let now = self.clock.as_ref().map_or_else(now, |clock| clock());
        now.saturating_duration_since(self.start)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").finish_non_exhaustive()
    }
}

/// The layers' clock.
pub(in crate::policy) fn now() -> Instant {
    #[cfg(feature = "tokio")]
    return crate::clock::now();
    #[cfg(not(feature = "tokio"))]
    #[expect(
        clippy::disallowed_methods,
        reason = "without tokio there is no paused time; `with_clock` sets another clock"
    )]
    return Instant::now();
}
