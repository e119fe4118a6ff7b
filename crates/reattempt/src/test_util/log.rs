//! What the probe observed, and when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{AttemptKind, CallContext};
use tokio::time::Instant;

/// A call that reached the probe.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Milliseconds since the probe was created.
    pub at: u64,
    /// The context that the request carried.
    pub context: CallContext,
}

#[derive(Debug, Default)]
struct Entries {
    calls: Vec<Seen>,
    dropped_futures: Vec<(u32, u64, bool)>,
    dropped_outcomes: Vec<(u32, u64)>,
    request_clones: u32,
    service_clones: u32,
    readied: u32,
}

/// What the probe observed. All times are milliseconds since the probe was created.
#[derive(Debug)]
pub struct Log {
    start: Instant,
    entries: Mutex<Entries>,
}

impl Log {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            entries: Mutex::default(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the probe was created.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The calls that reached the probe, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<Seen> {
        self.entries().calls.clone()
    }

    /// When each call reached the probe.
    #[must_use]
    pub fn times(&self) -> Vec<u64> {
        self.entries().calls.iter().map(|seen| seen.at).collect()
    }

    /// Why each call was sent.
    #[must_use]
    pub fn kinds(&self) -> Vec<AttemptKind> {
        let entries = self.entries();
        entries.calls.iter().map(|s| s.context.kind()).collect()
    }

    /// When this attempt's future was dropped, and whether it had ended before.
    #[must_use]
    pub fn future_dropped(&self, attempt: u32) -> Option<(u64, bool)> {
        let entries = self.entries();
        let mut of = entries.dropped_futures.iter();
        of.find(|(n, ..)| *n == attempt)
            .map(|(_, at, ended)| (*at, *ended))
    }

    /// When this attempt's response or error was dropped.
    #[must_use]
    pub fn outcome_dropped(&self, attempt: u32) -> Option<u64> {
        let entries = self.entries();
        let mut of = entries.dropped_outcomes.iter();
        of.find(|(n, _)| *n == attempt).map(|(_, at)| *at)
    }

    /// How often a request was cloned.
    #[must_use]
    pub fn request_clones(&self) -> u32 {
        self.entries().request_clones
    }

    /// How often the service was cloned, not counting clones by
    /// [`Probe::inner`](super::Probe::inner).
    #[must_use]
    pub fn service_clones(&self) -> u32 {
        self.entries().service_clones
    }

    /// How often readiness was acquired.
    #[must_use]
    pub fn readied(&self) -> u32 {
        self.entries().readied
    }

    pub(super) fn called(&self, context: CallContext) -> u32 {
        let at = self.now();
        let mut entries = self.entries();
        entries.calls.push(Seen { at, context });
        u32::try_from(entries.calls.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn future_gone(&self, attempt: u32, ended: bool) {
        let at = self.now();
        self.entries().dropped_futures.push((attempt, at, ended));
    }

    pub(super) fn request_cloned(&self) {
        self.entries().request_clones += 1;
    }

    pub(super) fn service_cloned(&self) {
        self.entries().service_clones += 1;
    }

    pub(super) fn getting_ready(&self) -> u32 {
        let mut entries = self.entries();
        entries.readied += 1;
        entries.readied
    }
}

/// Records when an outcome is dropped.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) log: Arc<Log>,
    pub(super) attempt: u32,
}

impl Drop for Note {
    fn drop(&mut self) {
        let at = self.log.now();
        let mut entries = self.log.entries();
        entries.dropped_outcomes.push((self.attempt, at));
    }
}
