//! The thread that writes: joins what was sent with what became of it, and fills blocks.

#[cfg(test)]
pub(super) mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::entry::{Entry, What};
use super::file::{ENTRIES, MOST_ITEMS, NAMES, REASON, ROUTE, block};
use super::note::{Counters, Event, Note};
use super::reason::flags_of;
use super::target::Target;
use crate::{AttemptKind, AttemptOutcome, AttemptRecord, CallDeadline, RetryReason};

/// How often the queue is looked at, so that a call wakes no thread.
const LOOK: Duration = Duration::from_millis(10);
/// A block that is not full is written after this many looks.
const LOOKS: u32 = 500;
/// The longest time that an entry can be after the base of its block.
const SPAN: u64 = (1 << 40) - 1;

/// A call in flight.
struct Call {
    id: u32,
    route: u16,
    idempotent: bool,
    deadline: Option<CallDeadline>,
    /// Attempts in flight: the number, when it was sent, and after how many entries.
    sent: Vec<(u32, Instant, u64)>,
}

pub(super) struct Writer {
    target: Target,
    start: Instant,
    counters: Arc<Counters>,
    calls: HashMap<usize, Call>,
    next_call: u32,
    /// By name.
    routes: HashMap<String, u16>,
    reasons: Vec<RetryReason>,
    /// All names as items, and how many of them the file has: a new one begins without.
    names: Vec<Vec<u8>>,
    named: usize,
    items: Vec<u8>,
    count: usize,
    base: u64,
    /// Entries of all files.
    entries: u64,
    failed: bool,
    /// The losses that the files know of.
    told: u64,
    /// [`LOOKS`], but for tests.
    looks: u32,
}

impl Writer {
    pub(super) fn new(target: Target, start: Instant, counters: Arc<Counters>) -> Self {
        Self {
            target,
            start,
            counters,
            calls: HashMap::new(),
            next_call: 0,
            routes: HashMap::new(),
            reasons: Vec::new(),
            names: Vec::new(),
            named: 0,
            items: Vec::new(),
            count: 0,
            base: 0,
            entries: 0,
            failed: false,
            told: 0,
            looks: LOOKS,
        }
    }

    pub(super) fn run(mut self, notes: &Receiver<Note>) {
        let mut looks = 0;
        loop {
            match notes.try_recv() {
                Ok(Note { call: 0, .. }) | Err(TryRecvError::Disconnected) => break,
                Ok(note) => self.take(note),
                Err(TryRecvError::Empty) => {
                    looks += 1;
                    if looks % self.looks == 0 {
                        self.flush();
                    }
                    thread::park_timeout(LOOK);
                }
            }
        }
        self.flush();
    }

    fn take(&mut self, note: Note) {
        let key = note.call;
        match note.event {
            Event::Sent {
                deadline,
                idempotent,
                route,
            } => {
                let is_first = note.number <= 1;
                let route = is_first
                    .then(|| self.route(route.as_ref().map_or("", |route| route.name())))
                    .flatten();
                // Entries of a call that is not known count as lost.
                if is_first && route.is_none() {
                    self.counters.lost.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(route) = route {
                    let id = self.next_call;
                    self.next_call = self.next_call.wrapping_add(1);
                    let call = Call {
                        id,
                        route,
                        idempotent,
                        deadline,
                        sent: Vec::new(),
                    };
                    self.calls.insert(key, call);
                }
                let entries = self.entries;
                if let Some(call) = self.calls.get_mut(&key) {
                    call.sent.push((note.number, note.at, entries));
                }
            }
            Event::Settled(record) => self.settled(key, note.at, &record),
            Event::Succeeded(stopped) => {
                let outcome = AttemptOutcome::Success;
                let mut record = AttemptRecord::new(note.number, note.kind, outcome);
                record.stopped = stopped;
                self.settled(key, note.at, &record);
            }
            Event::Refused(stopped) => {
                if let Some(mut entry) = self.entry(What::Refused, key) {
                    entry.kind = AttemptKind::Hedge;
                    entry.stopped = Some(stopped);
                    self.push(note.at, entry);
                }
            }
            Event::Ended { stopped, waited } => {
                // Else the last attempt's entry has the reason.
                let entry = if waited {
                    self.entry(What::Ended, key)
                } else {
                    None
                };
                if let Some(mut entry) = entry {
                    entry.kind = AttemptKind::Retry;
                    entry.stopped = stopped;
                    self.push(note.at, entry);
                }
                self.calls.remove(&key);
            }
        }
    }

    /// An entry of a call whose beginning was recorded.
    fn entry(&mut self, what: What, key: usize) -> Option<Entry> {
        let Some(call) = self.calls.get(&key) else {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let mut entry = Entry::new(what, call.id, 0);
        (entry.route, entry.idempotent) = (call.route, call.idempotent);
        Some(entry)
    }

    fn settled(&mut self, key: usize, at: Instant, record: &AttemptRecord) {
        if record.number <= 1 && !self.calls.contains_key(&key) {
            // No recovery layer acted on the call; or what was lost of it is counted already.
            return;
        }
        let Some(mut entry) = self.entry(What::Attempt, key) else {
            return;
        };
        let ended = record.ended.unwrap_or(at);
        let entries = self.entries;
        if let Some(call) = self.calls.get_mut(&key) {
            let is_it = |sent: &(u32, Instant, u64)| sent.0 == record.number;
            let Some(place) = call.sent.iter().position(is_it) else {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let (_, sent, before) = call.sent.swap_remove(place);
            entry.took = ended.saturating_duration_since(sent);
            entry.since_sent = entries.saturating_sub(before);
            if let (Some(deadline), AttemptKind::Initial) = (call.deadline, record.kind) {
                entry.timeout = Some(deadline.left(sent));
            }
            entry.enforced = call.deadline.is_some_and(|deadline| deadline.enforced);
        }
        entry.number = u16::try_from(record.number).unwrap_or(u16::MAX);
        (entry.kind, entry.outcome) = (record.kind, record.outcome);
        (entry.stopped, entry.delay) = (record.stopped, record.delay);
        (entry.pushback, entry.unreadable) = (record.pushback, record.pushback_unreadable);
        entry.cut_off = record.outcome == AttemptOutcome::Cancelled && record.ended.is_some();
        if let Some(failure) = &record.failure {
            entry.stage = Some(failure.stage);
            let Some(reason) = self.reason(failure.reason) else {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                return;
            };
            entry.reason = reason;
            (entry.code, entry.transparent) = (failure.code, failure.transparent);
            (entry.safe, entry.server_failed) = (failure.safe, failure.server_failed);
        }
        self.push(ended, entry);
    }

    /// The number of a route; `None` if there are too many.
    fn route(&mut self, name: &str) -> Option<u16> {
        if let Some(known) = self.routes.get(name) {
            return Some(*known);
        }
        let next = u16::try_from(self.routes.len()).ok()?;
        if next >= (1 << 14) - 1 {
            return None;
        }
        self.routes.insert(name.to_owned(), next);
        self.name(route_name(next, name));
        Some(next)
    }

    /// The number of a reason; `None` if there are too many.
    fn reason(&mut self, reason: RetryReason) -> Option<u8> {
        if let Some(known) = self.reasons.iter().position(|known| *known == reason) {
            return u8::try_from(known).ok();
        }
        let next = u8::try_from(self.reasons.len()).ok()?;
        self.reasons.push(reason);
        self.name(reason_name(next, reason));
        Some(next)
    }

    fn name(&mut self, item: Vec<u8>) {
        self.names.push(item);
        if self.names.len() - self.named == MOST_ITEMS {
            self.flush();
        }
    }

    fn push(&mut self, at: Instant, mut entry: Entry) {
        let at = at.saturating_duration_since(self.start).as_nanos();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        if self.count > 0 && (at < self.base || at - self.base > SPAN) {
            self.flush();
        }
        if self.count == 0 {
            // Another thread's attempt may have ended a little earlier.
            self.base = at.saturating_sub(1_000_000_000);
        }
        entry.at = at - self.base;
        self.items.extend(entry.encode());
        self.count += 1;
        self.entries += 1;
        if self.count == MOST_ITEMS {
            self.flush();
        }
    }

    /// Writes what there is, names first.
    fn flush(&mut self) {
        let (count, items) = (
            std::mem::take(&mut self.count),
            std::mem::take(&mut self.items),
        );
        let done = self.try_flush(count, &items);
        let counter = match done {
            Ok(()) => &self.counters.written,
            Err(error) => {
                // The places of other entries are those in the files.
                self.entries -= count as u64;
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!(target: "reattempt", "the recording cannot be written: {error}");
                }
                &self.counters.lost
            }
        };
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn try_flush(&mut self, count: usize, items: &[u8]) -> io::Result<()> {
        let lost = self.counters.lost.load(Ordering::Relaxed);
        // Before anything is written: if it fails, the full file does not grow.
        if self.target.rotate()? {
            self.named = 0;
        }
        for names in self.names[self.named..].chunks(MOST_ITEMS) {
            let block = block(NAMES, names.len(), 0, lost, &names.concat());
            self.target.write(&block)?;
            self.named += names.len();
        }
        // A block without entries says what was lost after the last.
        if count > 0 || lost > self.told {
            let block = block(ENTRIES, count, self.base, lost, items);
            self.target.write_entries(&block)?;
            self.told = lost;
        }
        Ok(())
    }
}

fn route_name(number: u16, name: &str) -> Vec<u8> {
    name_item(ROUTE, 0, number, name)
}

fn reason_name(number: u8, reason: RetryReason) -> Vec<u8> {
    name_item(REASON, flags_of(reason), u16::from(number), reason.name())
}

fn name_item(kind: u8, flags: u8, number: u16, text: &str) -> Vec<u8> {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut item = vec![kind, flags];
    item.extend(number.to_le_bytes());
    item.push(end as u8);
    item.extend(&text.as_bytes()[..end]);
    item
}
