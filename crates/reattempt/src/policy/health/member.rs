//! What is known of one backend.

mod load;

use std::sync::{Arc, OnceLock};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed, Release};

/// Attempts that are lost within this time, in nanoseconds, may have had one connection.
const AT_ONCE: u64 = 20_000_000;

/// The state of one backend, shared by all lists that it is in. Instants are nanoseconds since the
/// pool was made, and never 0.
///
/// Relaxed but for the ejection: the words guard no other memory. What has to be consistent (who is
/// ejected) is written under the pool's lock.
#[derive(Debug)]
pub(super) struct Member {
    /// Attempts in flight in the lower half, and how many were sent in all in the upper one, so
    /// that sending one is one addition.
    attempts: AtomicU64,
    /// How many were sent at the last tick.
    sent_at_tick: AtomicU32,
    /// What an attempt takes, smoothed.
    latency: AtomicU64,
    /// What an answer takes, smoothed: without what was dropped or failed. 0 before the first; the
    /// lowest bit says that it answered since the last tick.
    answers: AtomicU64,
    /// When it was last known to have answered, at a tick; 0 if it never did.
    heard_at: AtomicU64,
    /// When the first attempt after that was sent that was dropped unanswered; 0 if none was.
    silent_since: AtomicU64,
    /// When the last of them was dropped.
    silent_until: AtomicU64,
    successes: AtomicU64,
    failures: AtomicU64,
    /// Failures without an answer between them.
    in_a_row: AtomicU32,
    /// When the last of them was counted; 0 if none was.
    failed_at: AtomicU64,
    /// After how many of them it should have been ejected last, and could not be; 0 if it was not
    /// to be.
    refused_at: AtomicU32,
    /// When it was ejected; 0 if it is not.
    ejected_at: AtomicU64,
    /// A50's ejection time multiplier.
    times: AtomicU32,
    /// When it returned or joined, while it has less than its share; else 0.
    joined_at: AtomicU64,
    /// When it last returned; 0 if it was never ejected. What was sent before it and fails says
    /// nothing of now.
    returned_at: AtomicU64,
    /// Until when it asked not to be used; 0 if it did not.
    held_until: AtomicU64,
    /// When it was ejected, or the last probe ended.
    probed_at: AtomicU64,
    /// When the probe in flight was sent; 0 if there is none.
    probed_since: AtomicU64,
    /// 1 once it is in no list.
    gone: AtomicU32,
    /// By which events name it.
    name: OnceLock<Arc<str>>,
}

impl Member {
    pub(super) fn new(latency: u64, joined_at: u64) -> Self {
        Self {
            attempts: AtomicU64::new(0),
            sent_at_tick: AtomicU32::new(0),
            latency: AtomicU64::new(latency.max(load::UNKNOWN)),
            answers: AtomicU64::new(0),
            heard_at: AtomicU64::new(0),
            silent_since: AtomicU64::new(0),
            silent_until: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            in_a_row: AtomicU32::new(0),
            failed_at: AtomicU64::new(0),
            refused_at: AtomicU32::new(0),
            ejected_at: AtomicU64::new(0),
            times: AtomicU32::new(0),
            joined_at: AtomicU64::new(joined_at),
            returned_at: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
            probed_at: AtomicU64::new(0),
            probed_since: AtomicU64::new(0),
            gone: AtomicU32::new(0),
            name: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn succeeded(&self) {
        self.successes.fetch_add(1, Relaxed);
        if self.in_a_row.load(Relaxed) != 0 {
            self.begin_with(0);
        }
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// One more failure without an answer between; returns how many there are. `None` if it is not
    /// one more: `lost_since` is when an attempt was sent that was lost with its connection, and
    /// the last failure, at the same time, may have been lost with it.
    pub(super) fn failed_again(&self, lost_since: Option<u64>, now: u64) -> Option<u32> {
        let counts = |last: u64| {
            let is_later = now.saturating_sub(last) > AT_ONCE;
            // At the same instant too: on a clock that stands still one is sent after another.
            lost_since.is_none_or(|sent| sent >= last || is_later)
        };
        let counted = |last: u64| counts(last).then_some(now.max(last));
        // One update, so that of many that are lost at once one counts.
        let last = self.failed_at.fetch_update(Relaxed, Relaxed, counted);
        last.ok()?;
        Some(self.in_a_row.fetch_add(1, Relaxed).saturating_add(1))
    }

    /// Whether this many failures in a row are enough to ask for an ejection: at the threshold
    /// `most`, whenever it was set, and if it could not be ejected then, each time that it has
    /// failed so often again.
    pub(super) fn is_due(&self, in_a_row: u32, most: u32) -> bool {
        let refused_at = self.refused_at.load(Relaxed);
        // What was refused may be of an earlier run: a thread that is late wrote it.
        let is_new = refused_at == 0 || in_a_row.wrapping_sub(refused_at) >= most;
        in_a_row == most || in_a_row > most && is_new
    }

    /// It should have been ejected now, and could not be.
    pub(super) fn refused_after(&self, in_a_row: u32) {
        self.refused_at.store(in_a_row, Relaxed);
    }

    /// Whether it should be ejected for its failures in a row, and could not be.
    pub(super) fn should_be_ejected(&self) -> bool {
        let refused_at = self.refused_at.load(Relaxed);
        // Not of an earlier run: a thread that is late wrote it.
        refused_at != 0 && self.in_a_row() >= refused_at
    }

    /// From now on it has failed this often in a row.
    pub(super) fn begin_with(&self, failures: u32) {
        self.in_a_row.store(failures, Relaxed);
        self.refused_at.store(0, Relaxed);
    }

    /// Failures without an answer between them.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row.load(Relaxed)
    }

    /// Whether its last attempt failed or had no answer for long.
    pub(super) fn is_failing(&self) -> bool {
        self.in_a_row() != 0
    }

    /// Successes and failures since this was last asked.
    pub(super) fn take_counts(&self) -> (u64, u64) {
        (
            self.successes.swap(0, Relaxed),
            self.failures.swap(0, Relaxed),
        )
    }

    #[inline]
    pub(super) fn ejected_at(&self) -> Option<u64> {
        let at = self.ejected_at.load(Acquire);
        (at != 0).then_some(at)
    }

    #[inline]
    pub(super) fn is_ejected(&self) -> bool {
        self.ejected_at().is_some()
    }

    pub(super) fn times(&self) -> u32 {
        self.times.load(Relaxed)
    }

    /// Under the pool's lock.
    pub(super) fn eject(&self, now: u64) {
        // In this order: who reads when it was ejected, without the lock, also sees for how long.
        self.times.store(self.times().saturating_add(1), Relaxed);
        self.ejected_at.store(now.max(1), Release);
        self.begin_with(0);
        self.joined_at.store(0, Relaxed);
    }

    /// A probe was of no use, or none was sent yet.
    pub(super) fn probed(&self, now: u64) {
        self.probed_at.store(now, Relaxed);
    }

    pub(super) fn probed_at(&self) -> u64 {
        self.probed_at.load(Relaxed)
    }

    /// Under the pool's lock. `in_a_row` is how many failures it starts with.
    pub(super) fn uneject(&self, now: u64, in_a_row: u32) {
        self.begin_with(in_a_row);
        self.joined_at.store(now, Relaxed);
        self.returned_at.store(now, Relaxed);
        // The next sweep judges what was sent from now on.
        let _ = self.take_counts();
        // Last: a reader without the lock that finds it back also finds since when.
        self.ejected_at.store(0, Release);
    }

    pub(super) fn returned_at(&self) -> u64 {
        self.returned_at.load(Relaxed)
    }

    /// Under the pool's lock: intervals without an ejection passed.
    pub(super) fn calm(&self, intervals: u64) {
        let less = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.times.store(self.times().saturating_sub(less), Relaxed);
    }

    /// Takes the right to probe, if no probe is in flight that is younger than `patience`.
    pub(super) fn take_probe(&self, now: u64, patience: u64) -> bool {
        let since = self.probed_since.load(Relaxed);
        let is_free = since == 0 || now >= since.saturating_add(patience);
        self.is_ejected()
            && is_free
            && self
                .probed_since
                .compare_exchange(since, now, Relaxed, Relaxed)
                .is_ok()
    }

    /// Whether the probe in flight is the one that was sent then.
    pub(super) fn is_probed_since(&self, since: u64) -> bool {
        self.probed_since.load(Relaxed) == since
    }

    /// The probe in flight is over.
    pub(super) fn probe_over(&self) {
        self.probed_since.store(0, Relaxed);
    }

    /// The longest of what it asked for counts.
    pub(super) fn hold(&self, until: u64) {
        self.held_until.fetch_max(until, Relaxed);
    }

    /// For how long it asks not to be used, in nanoseconds.
    pub(super) fn held_for(&self, now: u64) -> u64 {
        self.held_until.load(Relaxed).saturating_sub(now)
    }

    /// When it returned or joined, if it may still have less than its share.
    pub(super) fn joined_at(&self) -> Option<u64> {
        let at = self.joined_at.load(Relaxed);
        (at != 0).then_some(at)
    }

    pub(super) fn has_full_share(&self) {
        self.joined_at.store(0, Relaxed);
    }

    /// The first name stays.
    pub(super) fn set_name(&self, name: Arc<str>) {
        let _ = self.name.set(name);
    }

    pub(super) fn name(&self) -> Option<Arc<str>> {
        self.name.get().map(Arc::clone)
    }

    /// Under the pool's lock: whether it is in no list.
    pub(super) fn set_gone(&self, gone: bool) {
        self.gone.store(gone.into(), Relaxed);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed) != 0
    }
}
