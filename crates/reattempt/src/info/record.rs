//! One attempt, and what followed it.

use std::time::{Duration, Instant};

use super::{Backend, StopReason};
use crate::{Failure, ServerPushback, Stage};

/// Why an attempt was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptKind {
    /// The first attempt of its call.
    #[default]
    Initial,
    /// Sent after a failure.
    Retry,
    /// Sent while others are still in flight.
    Hedge,
    /// Sent after a failure that the server's application never saw; not counted.
    Transparent,
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It succeeded.
    Success,
    /// Its response is committed; the rest decides later.
    Committed,
    /// It failed with a fatal failure.
    Fatal,
    /// It failed in a way that a retry might fix.
    Retry,
    /// It was dropped before it ended: a losing hedge, a deadline, a cancelled call. With
    /// [`AttemptRecord::ended`]: the request cut the attempt off because another attempt continues
    /// alone.
    Cancelled,
}

/// One attempt and the decision that followed it.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The attempt number; the first is 1.
    pub number: u32,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// How far an attempt had come that was dropped before it ended, if a layer or the transport
    /// reported it.
    pub cut_off_in: Option<Stage>,
    /// The server's pushback.
    pub pushback: Option<ServerPushback>,
    /// The server's pushback could not be parsed and counted as none.
    pub pushback_unreadable: bool,
    /// The delay chosen before the next attempt.
    pub delay: Option<Duration>,
    /// The gate that refused a further attempt.
    pub stopped: Option<StopReason>,
    /// Where it was sent, if the transport reported it.
    pub backend: Option<Backend>,
    /// When it ended, if the clock was read (it is not for a success).
    pub ended: Option<Instant>,
    /// The throttle's fill after this attempt was counted, in thousandths of a token.
    pub milli_tokens: Option<u64>,
    /// A retry after this failure was paid for, by the throttle if there is one; also if that was
    /// refunded, because the retry was not sent.
    pub paid: bool,
}

/// All but the backend is copied as it is: half of the instructions of a derived clone, which looks
/// at each option.
impl Clone for AttemptRecord {
    fn clone(&self) -> Self {
        Self {
            backend: self.backend.clone(),
            ..*self
        }
    }
}

impl AttemptRecord {
    /// A record of an attempt that ended like this, and nothing more.
    #[must_use]
    pub const fn new(number: u32, kind: AttemptKind, outcome: AttemptOutcome) -> Self {
        Self {
            number,
            kind,
            outcome,
            failure: None,
            cut_off_in: None,
            pushback: None,
            pushback_unreadable: false,
            delay: None,
            stopped: None,
            backend: None,
            ended: None,
            milli_tokens: None,
            paid: false,
        }
    }
}
