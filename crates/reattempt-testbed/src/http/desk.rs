//! What the connections of one server share: options, script and records.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::log::Log;
use super::options::Options;
use super::script::{Next, Script};
use crate::lock::lock;

/// State shared by the connections of one server.
pub(crate) struct Desk<Seen, Step> {
    pub(crate) options: Options,
    pub(crate) log: Log<Seen>,
    pub(super) script: Mutex<Script<Seen, Step>>,
    pub(super) accepted: AtomicU64,
    pub(super) answering: AtomicUsize,
    pub(super) drop_all: Notify,
}

impl<Seen: Clone, Step: Clone + Default> Desk<Seen, Step> {
    pub(super) fn new(options: Options, script: Script<Seen, Step>) -> Self {
        Self {
            options,
            log: Log::new(options.records),
            script: Mutex::new(script),
            accepted: AtomicU64::new(0),
            answering: AtomicUsize::new(0),
            drop_all: Notify::new(),
        }
    }

    /// Counts a call as open until the returned guard is dropped.
    pub(crate) fn answers(self: &Arc<Self>) -> Answering<Seen, Step> {
        self.answering.fetch_add(1, Ordering::AcqRel);
        Answering(Arc::clone(self))
    }

    pub(crate) fn next(&self) -> Next<Seen, Step> {
        lock(&self.script).next()
    }

    /// The step for a call whose record is complete enough for a handler.
    pub(crate) fn step(&self, next: Next<Seen, Step>, number: usize) -> Step {
        match next {
            Next::Step(step) => step,
            // The handler gets a copy, so that it may inspect the server's records itself.
            Next::Ask(handler) => self
                .log
                .with(number, |seen| seen.clone())
                .map_or_else(Step::default, |seen| handler(&seen)),
        }
    }
}

/// A call that is neither answered nor cancelled.
pub(crate) struct Answering<Seen, Step>(Arc<Desk<Seen, Step>>);

impl<Seen, Step> Drop for Answering<Seen, Step> {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}
