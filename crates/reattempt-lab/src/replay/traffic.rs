//! A recording, sorted by calls.

use std::collections::HashMap;

use reattempt::AttemptKind;
use reattempt::record::{Recording, What};

/// What happened to a call, in the order in which it happened to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The attempt of this entry was sent; first attempts have no such event.
    Sent(usize),
    /// What this entry says.
    Entry(usize),
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// In nanoseconds since the start of the recording.
    pub(crate) arrived: u64,
    /// The deadline, in nanoseconds since the start.
    pub(crate) deadline: Option<u64>,
    pub(crate) enforced: bool,
    pub(crate) idempotent: bool,
    pub(crate) route: u16,
    /// The entries of its attempts.
    pub(crate) attempts: Vec<usize>,
    /// All its entries.
    pub(crate) all: Vec<usize>,
}

/// All calls whose beginning was recorded, and what happened to them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) calls: Vec<Recorded>,
    /// Each with the place of its call.
    pub(crate) events: Vec<(u32, Happened)>,
    /// Calls that began before the recording, or whose first attempt was lost.
    pub(crate) incomplete: usize,
}

impl Traffic {
    pub(crate) fn of(recording: &Recording) -> Self {
        let entries = &recording.entries;
        // Numbers are used again after four billion calls, which are more than a recording has.
        let mut groups: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut order = Vec::new();
        for (at, timed) in entries.iter().enumerate() {
            let group = groups.entry(timed.entry.call).or_default();
            if group.is_empty() {
                order.push(timed.entry.call);
            }
            group.push(at);
        }
        let mut traffic = Self::default();
        let mut events: Vec<(u64, u64, u32, Happened)> = Vec::new();
        for id in order {
            let group = &groups[&id];
            let is_attempt = |at: &&usize| entries[**at].entry.what == What::Attempt;
            let first = |at: &&usize| entries[**at].entry.kind == AttemptKind::Initial;
            let Some(initial) = group.iter().filter(is_attempt).find(first) else {
                traffic.incomplete += 1;
                continue;
            };
            let place = traffic.calls.len() as u32;
            for at in group {
                let timed = &entries[*at];
                let entry = &timed.entry;
                if entry.what == What::Attempt && entry.kind != AttemptKind::Initial {
                    let before = (*at as u64).saturating_sub(entry.since_sent);
                    let sent = timed.at.saturating_sub(nanos(entry.took));
                    events.push((2 * before, sent, place, Happened::Sent(*at)));
                }
                events.push((2 * *at as u64 + 1, 0, place, Happened::Entry(*at)));
            }
            let timed = &entries[*initial];
            let arrived = timed.at.saturating_sub(nanos(timed.entry.took));
            traffic.calls.push(Recorded {
                arrived,
                deadline: timed.entry.limit.map(|limit| arrived + nanos(limit)),
                enforced: timed.entry.enforced,
                idempotent: timed.entry.idempotent,
                route: timed.entry.route,
                attempts: group.iter().filter(is_attempt).copied().collect(),
                all: group.clone(),
            });
        }
        // Of attempts that were sent between the same two entries the earlier one comes first.
        events.sort_by_key(|(place, sent, call, _)| (*place, *sent, *call));
        traffic.events = events
            .into_iter()
            .map(|(_, _, call, happened)| (call, happened))
            .collect();
        traffic
    }
}

/// In nanoseconds.
pub(crate) fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
