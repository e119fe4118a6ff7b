//! Calls and attempts in flight.

use super::tried::Tried;
use reattempt::driver::{HedgeDriver, RetryDriver};
use reattempt::health::Sent;
use reattempt::{AttemptKind, Failure};

/// No attempt, no call.
pub(super) const NONE: u32 = u32::MAX;

/// A call of a client, or of a server that serves an attempt.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tier: u8,
    pub(super) kind: u16,
    /// The client or the server that makes it.
    pub(super) process: u32,
    /// The attempt that it serves; [`NONE`] for a client's.
    pub(super) serves: u32,
    /// It belongs to a client's call that is counted.
    pub(super) counted: bool,
    /// The recorded call that it is, or [`NONE`].
    pub(super) past: u32,
    /// Nothing more is sent: its deadline ends it.
    pub(super) expires: bool,
    pub(super) arrived: u64,
    pub(super) deadline: u64,
    /// What chance decides about it.
    pub(super) word: u64,
    pub(super) sent: u32,
    /// Of those, how many were transparent.
    pub(super) transparent: u32,
    /// The latest failure was marked: another hop has given up.
    pub(super) marked: bool,
    /// The backends that it has tried.
    pub(super) tried: Tried,
    /// The outcome of the attempt that failed last.
    pub(super) last: u16,
    /// The failure for which the throttle last paid.
    pub(super) paid: Option<Failure>,
    pub(super) progress: Progress,
}

/// How far a call has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// One attempt after another. What only a failing call needs comes with its first failure.
    Retry {
        /// The attempt in flight.
        flight: u32,
        failing: Option<Box<Failing>>,
    },
    Hedge(Box<Hedging>),
}

impl Progress {
    /// Whether an attempt is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        match self {
            Self::Retry { flight, .. } => *flight != NONE,
            Self::Hedge(hedging) => !hedging.flights.is_empty(),
        }
    }

    /// Whether a hedge delay learns from this attempt.
    pub(super) fn teaches(&self, attempt: u32) -> bool {
        match self {
            Self::Retry { .. } => true,
            Self::Hedge(hedging) => hedging.driver.machine.teaches(attempt),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Failing {
    pub(super) driver: RetryDriver,
    /// What the next attempt is.
    pub(super) next: AttemptKind,
}

#[derive(Debug)]
pub(super) struct Hedging {
    pub(super) driver: HedgeDriver,
    pub(super) flights: Vec<u32>,
    /// When it looks at what is due.
    pub(super) wakes: Option<u64>,
}

/// One attempt, as long as its caller or its backend knows of it.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) call: u32,
    pub(super) number: u32,
    pub(super) kind: AttemptKind,
    pub(super) tier: u8,
    /// The caller waits for it.
    pub(super) awaited: bool,
    /// When it was sent there was a backend that its call had not tried.
    pub(super) untried: bool,
    pub(super) backend: u32,
    /// The process that sent it, and what its pool knows of it while it is awaited.
    pub(super) process: u32,
    pub(super) flight: Option<Sent>,
    pub(super) place: Place,
    /// The answer says that the call behind it has given up.
    pub(super) marked: bool,
    /// The outcome that its backend has decided on.
    pub(super) outcome: u16,
    /// The events and queues that refer to it.
    pub(super) references: u8,
    /// The call that its backend makes to serve it.
    pub(super) inner: u32,
    pub(super) word: u64,
    /// The same word for what chance decides: its call's kind and whether it counts, for the calls
    /// inward.
    pub(super) call_kind: u16,
    pub(super) counted: bool,
    pub(super) arrived: u64,
    /// By its caller.
    pub(super) sent: u64,
}

/// The end of an attempt, as its caller sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) attempt: u32,
    pub(super) number: u32,
    pub(super) kind: AttemptKind,
    pub(super) untried: bool,
    pub(super) marked: bool,
    pub(super) outcome: u16,
    pub(super) sent: u64,
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On its way to the backend.
    Leaving,
    Queue,
    Worker,
    /// On its way back, or gone.
    Left,
}
