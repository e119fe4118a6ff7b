//! What passes between the call path and the thread that writes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::{AttemptKind, AttemptRecord, CallDeadline, RoutePolicy, StopReason};

/// An event on its way to the writer.
#[derive(Debug)]
pub(super) struct Note {
    /// The address of the call's state, which is its own until the call has ended.
    pub(super) call: usize,
    pub(super) at: Instant,
    pub(super) number: u32,
    pub(super) kind: AttemptKind,
    pub(super) event: Event,
}

#[derive(Debug)]
pub(super) enum Event {
    Sent {
        deadline: Option<CallDeadline>,
        idempotent: bool,
        route: Option<Arc<RoutePolicy>>,
    },
    Settled(Box<AttemptRecord>),
    Succeeded(Option<StopReason>),
    Refused(StopReason),
    Ended {
        stopped: Option<StopReason>,
        waited: bool,
    },
}

/// Entries that were written, and events that were lost.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) lost: AtomicU64,
    pub(super) written: AtomicU64,
}
