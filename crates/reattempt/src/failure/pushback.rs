//! Server pushback: what a server asks of retries (A6, Pushback).

use std::fmt;
use std::time::Duration;

/// The server's request about further attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerPushback {
    /// Retry after exactly this delay, which replaces the back-off, without jitter; under a
    /// strategy without a maximum of attempts (by the default of
    /// [`delay_asked`](crate::RetryStrategy::delay_asked)), and for an always-retry reason, after
    /// the back-off if that is longer. More than a day acts as [`ServerPushback::Stop`] on a call
    /// without a deadline, so that no server can make a call wait for years.
    After(Duration),
    /// Retry after this delay, which is longer than this client waits: no retry. A reader with a
    /// cap says so ([`too_long`](Self::too_long)). The server forbade nothing: a throttle counts
    /// the failure as without a pushback.
    TooLong {
        /// The delay in milliseconds. With a `Duration` each record of an attempt would be larger.
        millis: u64,
    },
    /// Do not retry this call. A throttle counts the failure also if it is final (A6, Throttling).
    Stop,
}

impl ServerPushback {
    /// The longest delay that an attempt reports, some 25 days: as far as gRPC's 31 bits of
    /// milliseconds go. A longer one is reported as this one.
    pub const LONGEST: Duration = Duration::from_micros((1 << 41) - 1);

    /// A delay that is longer than this client waits, in milliseconds, rounded up.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub fn too_long(delay: Duration) -> Self {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        Self::TooLong {
            millis: u64::try_from(millis).unwrap_or(u64::MAX),
        }
    }

    /// The delay that the server asked for, also if the client does not wait for it.
    #[must_use]
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::After(delay) => Some(delay),
            Self::TooLong { millis } => Some(Duration::from_millis(millis)),
            Self::Stop => None,
        }
    }
}

/// `250ms`, `3600s, too long`, or `stop`.
impl fmt::Display for ServerPushback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(delay) => write!(f, "{delay:?}"),
            Self::TooLong { millis } => {
                write!(f, "{:?}, too long", Duration::from_millis(*millis))
            }
            Self::Stop => f.write_str("stop"),
        }
    }
}
