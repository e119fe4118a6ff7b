//! Keeps the configuration current: a poll every interval, and a refresh on error (RFC 0024,
//! General Design).

mod fetch;
mod options;
mod rounds;
#[cfg(test)]
mod tests;
mod timeouts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use fetch::{FetchConfig, FetchError};
pub use options::{ConfigPollerOptions, DEFAULT_FLOOR, DEFAULT_INTERVAL, WHILE_CHANGING};

use super::last_body::LastBody;
use super::{Address, ClusterConfig, ConfigStore, Network, NetworkChoice};

/// Requests newer configurations from the nodes: every interval, and on errors that suggest a
/// change.
///
/// A single task does this, so at most one node is polled at a time. It ends when the last clone is
/// dropped.
///
/// A poll tries the nodes round robin, starting after the previous one (at first from a random
/// one), and stops at the first configuration that it receives, newer or not. A
/// [refresh](ConfigPoller::refresh) continues from there, skips the failed node, and does nothing
/// if a node was polled within the floor. If no node of the configuration answers, both try the
/// seeds.
#[derive(Clone, Debug)]
pub struct ConfigPoller(Arc<Handle>);

/// What the clones share: one reference count, because each call clones the poller.
#[derive(Debug)]
struct Handle {
    control: Arc<Control>,
    store: ConfigStore,
    refused: LastBody,
    task: JoinHandle<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ConfigPoller {
    /// Starts polling. While the store is empty the seeds are polled, the first time immediately
    /// unless
    /// [the client provides the first configuration](ConfigPollerOptions::first_from_client).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn spawn<F: FetchConfig>(
        store: ConfigStore,
        fetch: F,
        options: ConfigPollerOptions,
    ) -> Self {
        let finished = watch::Sender::new(0);
        let control = Arc::new(Control::new(&options, finished.subscribe()));
        let rounds = rounds::Rounds::new(
            Arc::clone(&control),
            finished,
            store.clone(),
            fetch,
            options,
        );
        Self(Arc::new(Handle {
            control,
            store,
            refused: LastBody::default(),
            task: tokio::spawn(rounds.run()),
        }))
    }

    /// The store that receives the configurations.
    #[must_use]
    pub fn store(&self) -> &ConfigStore {
        &self.0.store
    }

    /// The last configuration in a response to a refused request, for the same store.
    pub(super) fn refused(&self) -> &LastBody {
        &self.0.refused
    }

    /// The network whose addresses are polled, with the nodes of this configuration.
    #[must_use]
    pub fn network(&self, config: &ClusterConfig) -> Network {
        self.0.control.network.of(config)
    }

    /// True if nodes are polled over TLS.
    #[must_use]
    pub fn tls(&self) -> bool {
        self.0.control.tls
    }

    /// Requests a newer configuration from a node other than `failed`.
    ///
    /// Joins a round in progress; if that waits for the failed node, it continues with the next
    /// one. `None` if a node was polled within the floor: then no request is sent.
    pub fn refresh(&self, failed: Option<&Address>) -> Option<Refreshing> {
        let mut state = self.0.control.state();
        let under_way = state.running || state.requested;
        if !under_way {
            if state.within(self.0.control.floor) {
                return None;
            }
            state.requested = true;
            self.0.control.wake.notify_one();
        }
        if let Some(failed) = failed.filter(|failed| !state.failed.contains(failed)) {
            if state.failed.len() < MOST_FAILED {
                state.failed.push(failed.clone());
            }
            if state.asking.as_ref() == Some(failed) {
                self.0.control.move_on.notify_one();
            }
        }
        let finished = self.0.control.finished.clone();
        let round = *finished.borrow() + 1;
        Some(Refreshing { finished, round })
    }
}

/// The maximum number of failed nodes that one round remembers.
const MOST_FAILED: usize = 64;

/// A refresh in progress.
#[derive(Debug)]
pub struct Refreshing {
    finished: watch::Receiver<u64>,
    round: u64,
}

impl Refreshing {
    /// Waits until the refresh has completed, successfully or not; the result is in the store.
    /// Dropping the future cancels nothing.
    pub async fn done(&mut self) {
        let round = self.round;
        // The task has ended, with the poller or its runtime: no round will follow.
        let _ = self.finished.wait_for(|finished| *finished >= round).await;
    }
}

/// State shared by the handles and the task.
#[derive(Debug)]
struct Control {
    state: Mutex<State>,
    /// A refresh was requested.
    wake: Notify,
    /// The node that is being polled has failed meanwhile.
    move_on: Notify,
    /// The number of completed rounds; the task has the sender.
    finished: watch::Receiver<u64>,
    floor: Duration,
    network: NetworkChoice,
    tls: bool,
}

#[derive(Debug, Default)]
struct State {
    requested: bool,
    running: bool,
    asking: Option<Address>,
    failed: Vec<Address>,
    last_asked: Option<Instant>,
}

impl State {
    fn within(&self, floor: Duration) -> bool {
        self.last_asked.is_some_and(|at| at.elapsed() < floor)
    }
}

impl Control {
    fn new(options: &ConfigPollerOptions, finished: watch::Receiver<u64>) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            move_on: Notify::new(),
            finished,
            floor: options.floor.min(options::LONGEST),
            network: options.network.clone(),
            tls: options.tls,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
