//! The events in order: written by the server, the caller, and the user code inside the layers.

use reattempt::{AttemptKind, AttemptRecord, RetryInfo, StopReason, Verdict};

use crate::reply::CallResult;
use crate::throttle::Op;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The caller calls the stack.
    Begins,
    /// An attempt reached the server.
    Sent {
        /// Its index among the call's sends, from 0.
        place: usize,
        number: u32,
        kind: AttemptKind,
        /// The timeout in its context.
        limit: Option<u64>,
    },
    /// The attempt ended by itself: with the server's result, or because its body failed.
    Ends {
        place: usize,
        /// No frame of its body was read.
        unread: bool,
        broke_off: bool,
    },
    /// Its future was dropped.
    Gone {
        place: usize,
    },
    /// The classifier was called.
    Classified {
        number: u32,
        verdict: Verdict,
    },
    /// The strategy decided after this number of retries.
    Decided {
        retries: u32,
        stops: bool,
    },
    /// An operation on the throttle with this index, and its fill afterwards.
    Throttle {
        throttle: usize,
        op: Op,
        fills: [Option<u64>; 2],
    },
    Observed(Observed),
    /// The call's future completed.
    Over(CallResult),
    /// The caller dropped the call's future, completed or not.
    Left,
    /// The caller reports how a committed response ended.
    Concludes,
}

#[derive(Clone, Debug)]
pub(crate) enum Observed {
    Sent(u32, AttemptKind),
    Settled(AttemptRecord),
    Refused(StopReason),
    Ended(RetryInfo),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Milliseconds since the start of the scenario.
    pub(crate) at: u64,
    pub(crate) call: usize,
    pub(crate) event: Event,
}

/// The events of one call, one per line.
pub(crate) fn lines(log: &[Entry], call: usize) -> String {
    let own = log.iter().filter(|entry| entry.call == call);
    own.map(|entry| format!("  {:>6} {:?}\n", entry.at, entry.event))
        .collect()
}
