//! A recording, sorted by calls.

use std::ops::Range;

use reattempt::AttemptKind;
use reattempt::record::{Recording, Timed, What};

/// What happened to a call, in the order in which it happened to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The first attempt was sent.
    Arrived,
    /// The attempt of this entry, a later one, was sent.
    Sent(u32),
    /// What this entry says.
    Entry(u32),
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
    /// Of [`Traffic::by_call`].
    entries: Range<u32>,
}

/// All calls whose beginning was recorded, and what happened to them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) calls: Vec<Recorded>,
    /// The numbers of all entries, those of a call side by side.
    by_call: Vec<u32>,
    /// Each with the place of its call.
    pub(crate) events: Vec<(u32, Happened)>,
    /// Calls that began before the recording, or whose first attempt was lost.
    pub(crate) incomplete: usize,
}

impl Traffic {
    /// A recording has fewer entries than there are numbers of 32 bits. Numbers of calls are used
    /// again after four billion, which are more than a recording has.
    pub(crate) fn of(recording: &Recording) -> Self {
        let entries = &recording.entries;
        let entry = |at: &u32| &entries[*at as usize].entry;
        let mut by_call: Vec<u32> = (0..entries.len() as u32).collect();
        by_call.sort_by_key(|at| entry(at).call);
        let mut groups: Vec<Range<u32>> = Vec::new();
        let mut from = 0;
        for group in by_call.chunk_by(|one, other| entry(one).call == entry(other).call) {
            let to = from + group.len() as u32;
            groups.push(from..to);
            from = to;
        }
        // The calls in the order of their first entries.
        groups.sort_by_key(|group| by_call[group.start as usize]);
        let mut traffic = Self::default();
        let mut events: Vec<(u64, u64, u32, Happened)> = Vec::new();
        for range in groups {
            let group = &by_call[range.start as usize..range.end as usize];
            let is_first = |at: &&u32| {
                entry(at).what == What::Attempt && entry(at).kind == AttemptKind::Initial
            };
            let Some(initial) = group.iter().find(is_first) else {
                traffic.incomplete += 1;
                continue;
            };
            let place = traffic.calls.len() as u32;
            for at in group {
                let timed = &entries[*at as usize];
                let entry = &timed.entry;
                if entry.what == What::Attempt && entry.kind != AttemptKind::Initial {
                    let before = u64::from(*at).saturating_sub(entry.since_sent);
                    let sent = timed.at.saturating_sub(nanos(entry.took));
                    events.push((2 * before, sent, place, Happened::Sent(*at)));
                }
                events.push((2 * u64::from(*at) + 1, 0, place, Happened::Entry(*at)));
            }
            let timed = &entries[*initial as usize];
            let arrived = timed.at.saturating_sub(nanos(timed.entry.took));
            // A record has no place in the order for it, but a time.
            let before = entries.partition_point(|timed| timed.at < arrived);
            events.push((2 * before as u64, arrived, place, Happened::Arrived));
            let deadline = |limit| arrived.saturating_add(nanos(limit));
            traffic.calls.push(Recorded {
                arrived,
                deadline: timed.entry.timeout.map(deadline),
                enforced: timed.entry.enforced,
                idempotent: timed.entry.idempotent,
                route: timed.entry.route,
                entries: range,
            });
        }
        // Of attempts that were sent between the same two entries the earlier one comes first.
        events.sort_by_key(|(place, sent, call, _)| (*place, *sent, *call));
        let happened = |(_, _, call, happened)| (call, happened);
        traffic.events = events.into_iter().map(happened).collect();
        traffic.by_call = by_call;
        traffic
    }

    /// The entries of a call, in the order of the recording.
    pub(crate) fn entries<'a>(
        &'a self,
        recording: &'a Recording,
        call: &Recorded,
    ) -> impl DoubleEndedIterator<Item = &'a Timed> {
        let range = call.entries.start as usize..call.entries.end as usize;
        let at = |at: &u32| &recording.entries[*at as usize];
        self.by_call[range].iter().map(at)
    }
}

/// In nanoseconds.
pub(crate) fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
