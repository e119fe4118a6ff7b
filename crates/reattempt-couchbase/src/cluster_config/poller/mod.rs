//! Keeping the configuration current: a poll every interval, and a refresh on error (RFC 0024,
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

use super::{Address, ClusterConfig, ConfigStore, Network, NetworkChoice};

/// Asks the nodes for newer configurations: every interval, and when an error says that it is time.
///
/// One task does all of it, so that never more than one node is asked at once. It ends when the
/// last clone is dropped.
///
/// A poll asks the nodes round robin, each time from the next one on and at first from a random
/// one, and stops at the first configuration that it gets, newer or not. A
/// [refresh](ConfigPoller::refresh) goes on from there, leaves out the node that failed, and is
/// skipped if a node was asked within the floor. Where no node of the configuration answers, either
/// asks the seeds.
#[derive(Clone, Debug)]
pub struct ConfigPoller {
    control: Arc<Control>,
    store: ConfigStore,
    _task: Arc<Task>,
}

/// Ends the task with its last owner.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ConfigPoller {
    /// Starts polling. While the store is empty the seeds are asked, the first time at once unless
    /// [the client brings the first configuration](ConfigPollerOptions::first_from_client).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn spawn<F: FetchConfig>(
        store: ConfigStore,
        fetch: F,
        options: ConfigPollerOptions,
    ) -> Self {
        let control = Arc::new(Control::new(&options));
        let rounds = rounds::Rounds::new(Arc::clone(&control), store.clone(), fetch, options);
        Self {
            control,
            store,
            _task: Arc::new(Task(tokio::spawn(rounds.run()))),
        }
    }

    /// Where the configurations go.
    #[must_use]
    pub const fn store(&self) -> &ConfigStore {
        &self.store
    }

    /// The network in which the nodes of this configuration are asked.
    #[must_use]
    pub fn network(&self, config: &ClusterConfig) -> Network {
        self.control.network.of(config)
    }

    /// True if nodes are asked over TLS.
    #[must_use]
    pub fn tls(&self) -> bool {
        self.control.tls
    }

    /// Asks another node than the one that `failed` for a newer configuration.
    ///
    /// Joins what is under way; if that is waiting for the node that failed, it goes on to the next
    /// one. `None` if a node was asked within the floor: then nothing is asked.
    pub fn refresh(&self, failed: Option<&Address>) -> Option<Refreshing> {
        let mut state = self.control.state();
        let under_way = state.running || state.requested;
        if !under_way {
            if state.within(self.control.floor) {
                return None;
            }
            state.requested = true;
            self.control.wake.notify_one();
        }
        if let Some(failed) = failed.filter(|failed| !state.failed.contains(failed)) {
            if state.failed.len() < MOST_FAILED {
                state.failed.push(failed.clone());
            }
            if state.asking.as_ref() == Some(failed) {
                self.control.move_on.notify_one();
            }
        }
        let finished = self.control.finished.subscribe();
        let round = *finished.borrow() + 1;
        Some(Refreshing { finished, round })
    }
}

/// The most failed nodes that one round remembers.
const MOST_FAILED: usize = 64;

/// A refresh that is under way.
#[derive(Debug)]
pub struct Refreshing {
    finished: watch::Receiver<u64>,
    round: u64,
}

impl Refreshing {
    /// Waits until it is through, whatever came of it; what it found is in the store then. Dropping
    /// it cancels nothing.
    pub async fn done(&mut self) {
        let round = self.round;
        // The poller is gone: nobody asks any more.
        let _ = self.finished.wait_for(|finished| *finished >= round).await;
    }
}

/// What handles and the task share.
#[derive(Debug)]
struct Control {
    state: Mutex<State>,
    /// A refresh was asked for.
    wake: Notify,
    /// The node that is being asked has failed meanwhile.
    move_on: Notify,
    /// How many rounds are through.
    finished: watch::Sender<u64>,
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
    fn new(options: &ConfigPollerOptions) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            move_on: Notify::new(),
            finished: watch::Sender::new(0),
            floor: options.floor,
            network: options.network_choice(),
            tls: options.tls,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
