//! What one attempt came to.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{RetryReason, Stage};

/// Whether a failure may be mended without counting as a retry (A6, Transparent Retries).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transparent {
    /// The server's application may have seen the request: the policy decides.
    #[default]
    No,
    /// It reached the server but not its application (REFUSED_STREAM): once per call.
    Once,
    /// The connection was lost, and the attempt never left the client if its request body was never
    /// read ([`Replay::was_unread`](crate::Replay::was_unread)): then as
    /// [`Transparent::Unlimited`], in the stage [`Stage::Dispatch`] and safe for any request;
    /// otherwise as [`Transparent::No`].
    IfUnread,
    /// No connection could be made: at once while there is a backend that the call has not tried
    /// ([`Findings::untried_backend`](crate::Findings::untried_backend)), at most
    /// [`MOST_RECORDS`](crate::MOST_RECORDS) times; otherwise as [`Transparent::No`].
    NextBackend,
    /// It never left the client: until the deadline.
    Unlimited,
}

/// Why and where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, of the vocabulary that all protocols share.
    pub reason: RetryReason,
    /// How far the attempt came.
    pub stage: Stage,
    /// The protocol's own code (gRPC code, HTTP or KV status, MongoDB code), if there was one.
    pub code: Option<i32>,
    /// Whether it may be mended without counting.
    pub transparent: Transparent,
    /// True when even a request that is not idempotent may be sent again.
    pub safe: bool,
    /// True when the server says that this attempt changed nothing (MongoDB's `NoWritesPerformed`):
    /// of several failures it tells the caller least.
    pub no_effect: bool,
    /// The base that the server wants of the back-off, in microseconds; see
    /// [`Failure::base_backoff`].
    pub base_backoff_micros: Option<NonZeroU32>,
}

impl Failure {
    /// A failure of this reason in this stage: no code, not transparent, as safe as its reason
    /// says ([`RetryReason::allows_non_idempotent_retry`]).
    #[must_use]
    pub const fn new(reason: RetryReason, stage: Stage) -> Self {
        Self {
            reason,
            stage,
            code: None,
            transparent: Transparent::No,
            safe: reason.allows_non_idempotent_retry(),
            no_effect: false,
            base_backoff_micros: None,
        }
    }

    /// With the protocol's own code.
    #[must_use]
    pub const fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// The server says that this attempt changed nothing, or does not say so.
    #[must_use]
    pub const fn no_effect(mut self, no_effect: bool) -> Self {
        self.no_effect = no_effect;
        self
    }

    /// The server asked for this base of the back-off (MongoDB's `baseBackoffMS`), to whole
    /// microseconds and up to over an hour; zero asks for nothing. Only a strategy that knows of it
    /// looks at it.
    #[must_use]
    pub const fn with_base_backoff(mut self, base: Duration) -> Self {
        let micros = base.as_micros();
        self.base_backoff_micros = NonZeroU32::new(if micros > u32::MAX as u128 {
            u32::MAX
        } else {
            micros as u32
        });
        self
    }

    /// The base of the back-off that the server asked for, if it did.
    #[must_use]
    pub const fn base_backoff(&self) -> Option<Duration> {
        match self.base_backoff_micros {
            Some(micros) => Some(Duration::from_micros(micros.get() as u64)),
            None => None,
        }
    }

    /// May be mended without counting.
    #[must_use]
    pub const fn transparent(mut self, transparent: Transparent) -> Self {
        self.transparent = transparent;
        self
    }

    /// Overrules the reason: the server is (not) known to have left the request alone.
    #[must_use]
    pub const fn safe(mut self, safe: bool) -> Self {
        self.safe = safe;
        self
    }
}

/// What a classifier says of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It worked. Counted as a success; the answer goes to the caller.
    Success,
    /// The head of the answer is here and the rest decides later (a gRPC status in trailers):
    /// no further attempt, and nothing counted yet (A6, When Retries are Valid).
    Committed,
    /// It failed, and another attempt would not help: the failure goes to the caller.
    Fatal(Failure),
    /// It failed, and another attempt may help.
    Retry(Failure),
}

impl Verdict {
    /// The failure, unless it worked.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success | Self::Committed => None,
            Self::Fatal(failure) | Self::Retry(failure) => Some(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::UNKNOWN;

    #[test]
    fn a_servers_base_is_kept_to_the_microsecond_and_saturates() {
        let with = |base| Failure::new(UNKNOWN, Stage::Response).with_base_backoff(base);
        assert_eq!(with(Duration::ZERO).base_backoff(), None);
        assert_eq!(with(Duration::from_nanos(999)).base_backoff(), None);
        let exact = Duration::from_micros(50_500);
        assert_eq!(with(exact).base_backoff(), Some(exact));
        let most = Duration::from_micros(u32::MAX.into());
        assert_eq!(with(Duration::MAX).base_backoff(), Some(most));
    }

    /// It is copied for every attempt that fails.
    #[test]
    fn a_failure_is_three_words() {
        assert_eq!(size_of::<Failure>(), 24);
        assert_eq!(size_of::<Verdict>(), 32);
    }
}
