//! State shared by all connections of a node.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use reattempt_clients::scram::Stored;
use tokio::sync::watch;

use super::cursors::Cursors;
use super::role::Standing;
use super::script::Script;
use super::seen::SeenCommand;
use super::store::Store;

/// Maximum number of recorded commands.
const MAX_SEEN: usize = 100_000;

/// What they share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) me: String,
    pub(super) limit: usize,
    pub(super) users: BTreeMap<String, Stored>,
    pub(super) store: Store,
    pub(super) script: Script,
    pub(super) standing: Mutex<Standing>,
    pub(super) cursors: Mutex<Cursors>,
    pub(super) seen: watch::Sender<Vec<SeenCommand>>,
    pub(super) connections: AtomicU64,
    pub(super) messages: AtomicI32,
    pub(super) refuse: AtomicU64,
    pub(super) closer: watch::Sender<()>,
}

impl Shared {
    pub(super) fn record(&self, command: &SeenCommand) {
        self.seen.send_modify(|seen| {
            if seen.len() < MAX_SEEN {
                seen.push(command.clone());
            }
        });
    }

    pub(super) fn next_message(&self) -> i32 {
        self.messages.fetch_add(1, Ordering::Relaxed)
    }
}
