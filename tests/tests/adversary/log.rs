//! What happened, in its order: written by the server, the caller, and what a user gives to the
//! layers.

use reattempt::{AttemptKind, AttemptRecord, RetryInfo, Stopped, Verdict};

use crate::reply::Told;
use crate::throttle::Op;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The caller calls the stack.
    Begins,
    /// An attempt reached the server.
    Sent {
        /// Its place among the call's sends, from 0.
        place: usize,
        number: u32,
        kind: AttemptKind,
        /// The time limit that its context says.
        limit: Option<u64>,
    },
    /// It ended by itself: with what the server says, or because its body broke off.
    Ends {
        place: usize,
        /// Nothing of its body was asked for.
        unread: bool,
        broke_off: bool,
    },
    /// Its future is dropped.
    Gone {
        place: usize,
    },
    /// The classifier was asked.
    Classified {
        number: u32,
        verdict: Verdict,
    },
    /// The strategy decided after this number of retries.
    Decided {
        retries: u32,
        stops: bool,
    },
    /// The throttle of this number; its fills afterwards.
    Throttle {
        throttle: usize,
        op: Op,
        fills: [Option<u64>; 2],
    },
    Observed(Observed),
    /// The call's future gave its outcome.
    Over(Told),
    /// The caller dropped the call's future, over or not.
    Left,
    /// The caller says how a committed answer ended.
    Concludes,
}

#[derive(Clone, Debug)]
pub(crate) enum Observed {
    Sent(u32, AttemptKind),
    Settled(AttemptRecord),
    Refused(Stopped),
    Ended(RetryInfo),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// In milliseconds since the scenario began.
    pub(crate) at: u64,
    pub(crate) call: usize,
    pub(crate) event: Event,
}

/// A call's share of the log, one line an event.
pub(crate) fn lines(log: &[Entry], call: usize) -> String {
    let own = log.iter().filter(|entry| entry.call == call);
    own.map(|entry| format!("  {:>6} {:?}\n", entry.at, entry.event))
        .collect()
}
