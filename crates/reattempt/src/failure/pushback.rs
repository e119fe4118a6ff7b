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
    /// Do not retry this call.
    Stop,
}

impl ServerPushback {
    /// The longest delay that an attempt reports, some 25 days: as far as gRPC's 31 bits of
    /// milliseconds go. A longer one is reported as this one.
    pub const LONGEST: Duration = Duration::from_micros((1 << 41) - 1);
}

/// `250ms`, or `stop`.
impl fmt::Display for ServerPushback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(delay) => write!(f, "{delay:?}"),
            Self::Stop => f.write_str("stop"),
        }
    }
}
