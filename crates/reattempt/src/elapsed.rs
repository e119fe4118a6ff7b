//! The outcome of a call whose deadline has passed.

use std::fmt;
use std::time::Duration;

use crate::RetryInfo;

/// What a deadline bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadlineScope {
    /// The whole call: the `Deadline` layer is outside the recovery layer.
    Call,
    /// One attempt: the `Deadline` layer is inside the recovery layer.
    Attempt,
}

/// The deadline passed before there was a response.
///
/// Carries the history of the call: attempts, reasons, and whether the request may have taken
/// effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Elapsed {
    /// What the deadline bounds.
    pub scope: DeadlineScope,
    /// The configured duration; `None` if only an instant was set.
    pub timeout: Option<Duration>,
    /// True if a non-idempotent request was in flight, so that it may or may not have been carried
    /// out (RFC 0049: an ambiguous timeout); or if the server had answered it with a success.
    pub ambiguous: bool,
    /// Attempts and reasons up to the deadline.
    pub info: Box<RetryInfo>,
}

impl Elapsed {
    /// For layers that end a call themselves, and for tests.
    #[must_use]
    pub fn new(
        scope: DeadlineScope,
        timeout: Option<Duration>,
        ambiguous: bool,
        info: RetryInfo,
    ) -> Self {
        Self {
            scope,
            timeout,
            ambiguous,
            info: Box::new(info),
        }
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.scope {
            DeadlineScope::Call => "call",
            DeadlineScope::Attempt => "attempt",
        };
        let kind = if self.ambiguous {
            "ambiguous"
        } else {
            "unambiguous"
        };
        write!(f, "the {what} exceeded its deadline")?;
        if let Some(timeout) = self.timeout {
            write!(f, " of {timeout:?}")?;
        }
        write!(f, " ({kind} timeout")?;
        // Without a recovery layer no attempt is counted.
        if self.info.attempts() > 0 {
            write!(f, " after {} attempt(s)", self.info.attempts())?;
        }
        let mut reasons = self.info.reasons().peekable();
        if reasons.peek().is_some() {
            f.write_str("; reasons:")?;
            for reason in reasons {
                write!(f, " {reason}")?;
            }
        }
        f.write_str(")")
    }
}

impl std::error::Error for Elapsed {}
