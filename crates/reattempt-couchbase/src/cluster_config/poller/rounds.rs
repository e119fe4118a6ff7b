//! The polling task.

use std::future::{self, Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::{ConfigPollerOptions, Control, FetchConfig};
use crate::cluster_config::{Address, ConfigStore, Revision, Service, Swapped, VbucketMap};

/// After this many nodes of the configuration without an answer, a seed is asked after each further
/// one. A configuration may name thousands of nodes, each with a timeout of its own.
const BEFORE_SEEDS: usize = 8;

pub(super) struct Rounds<F> {
    control: Arc<Control>,
    /// The number of completed rounds. Dropped with the task, which ends what waits for a round.
    finished: watch::Sender<u64>,
    store: ConfigStore,
    fetch: F,
    options: ConfigPollerOptions,
    /// The index of the node to poll next; random at first.
    next: Option<usize>,
    /// No other node answered: those are asked that errors are about, whatever errors follow.
    last_resort: bool,
    /// When a round last found no node to ask.
    idle: Option<Instant>,
}

/// Why a round starts.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    Interval,
    Request,
    Empty,
}

/// The result of polling one node.
#[derive(PartialEq)]
enum Asked {
    /// A configuration, or the information that there is no newer one.
    Answered,
    Failed,
    /// Another source had a newer configuration, and the node may not be in it.
    Replaced,
}

impl<F: FetchConfig> Rounds<F> {
    pub(super) const fn new(
        control: Arc<Control>,
        finished: watch::Sender<u64>,
        store: ConfigStore,
        fetch: F,
        options: ConfigPollerOptions,
    ) -> Self {
        Self {
            control,
            finished,
            store,
            fetch,
            options,
            next: None,
            last_resort: false,
            idle: None,
        }
    }

    pub(super) async fn run(mut self) {
        if self.options.first && self.store.load().is_none() {
            self.round(Cause::Empty).await;
        }
        let interval = self.options.effective_interval();
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let control = Arc::clone(&self.control);
            let cause = tokio::select! {
                biased;
                () = control.wake.notified() => Cause::Request,
                () = self.due(&mut ticks) => Cause::Interval,
            };
            let began = Instant::now();
            self.round(cause).await;
            if self.control.state().last_asked < Some(began) {
                self.idle = Some(began);
            }
            if cause == Cause::Interval {
                // The next interval starts at the request: otherwise a poll could find the previous
                // one within the floor and be skipped.
                let asked = self.control.state().last_asked;
                let from = asked.filter(|asked| *asked >= began);
                ticks.reset_at(from.unwrap_or_else(Instant::now) + interval);
            }
        }
    }

    /// Waits until the next poll is due.
    async fn due(&self, ticks: &mut Interval) {
        let Some(often) = self.options.effective_while_changing() else {
            ticks.tick().await;
            return;
        };
        let began = Instant::now();
        let mut configs = self.store.watch();
        loop {
            let changing = configs
                .borrow_and_update()
                .as_ref()
                .and_then(|config| config.vbuckets())
                .is_some_and(VbucketMap::is_changing);
            let last = self.control.state().last_asked.max(self.idle);
            let last = last.unwrap_or(began);
            let sooner = async {
                if changing {
                    sleep_until(last + often).await;
                } else {
                    future::pending().await
                }
            };
            tokio::select! {
                biased;
                _ = ticks.tick() => return,
                () = sooner => {
                    ticks.reset();
                    return;
                }
                // The store lives as long as this task.
                _ = configs.changed() => {}
            }
        }
    }

    /// Polls one node after another until one answers; if no node of the configuration does, the
    /// seeds, which do not wait for the last node of a long configuration. A configuration that
    /// another source brings meanwhile may have other nodes.
    async fn round(&mut self, cause: Cause) {
        if !self.begin(cause) {
            return;
        }
        let mut replaced = false;
        loop {
            let (revision, known) = (self.store.revision(), self.known());
            let seeds = self.options.seeds.iter();
            let others: Vec<_> = seeds
                .filter(|seed| !known.contains(seed))
                .cloned()
                .collect();
            let mut ended = self.ask_each(&known, &others, revision).await;
            // An error excludes its own node only, and only from the round that it causes: of
            // several, each allows the nodes of the others, and a poll by time asks any node.
            let failed = self.control.state().failed.len();
            let most = if cause == Cause::Request { 1 } else { 0 };
            if ended.is_none() && failed > most {
                self.last_resort = true;
                ended = self.ask_each(&known, &others, revision).await;
                self.last_resort = false;
            }
            if ended != Some(Asked::Replaced) {
                break;
            }
            // A source that has one configuration after another does not set the pace of requests.
            let last_asked = self.control.state().last_asked;
            if let (true, Some(last_asked)) = (replaced, last_asked) {
                sleep_until(last_asked + self.control.floor).await;
            }
            replaced = true;
        }
        self.end();
    }

    /// Polls these nodes of the configuration with this revision, then these seeds. `None` if none
    /// answers.
    async fn ask_each(
        &mut self,
        known: &[Address],
        mut seeds: &[Address],
        of: Option<Revision>,
    ) -> Option<Asked> {
        for tried in 1..=known.len() {
            let node = self.take_next(known);
            if let Some(ended) = self.ask_one(node, of).await {
                return Some(ended);
            }
            let next = seeds.split_first().filter(|_| tried > BEFORE_SEEDS);
            let Some((seed, rest)) = next else {
                continue;
            };
            seeds = rest;
            if let Some(ended) = self.ask_one(seed, of).await {
                return Some(ended);
            }
        }
        for _ in 0..seeds.len() {
            let seed = self.take_next(seeds);
            if let Some(ended) = self.ask_one(seed, of).await {
                return Some(ended);
            }
        }
        None
    }

    /// `None` if the node does not answer, or may not be asked.
    async fn ask_one(&self, node: &Address, of: Option<Revision>) -> Option<Asked> {
        if self.store.revision() != of {
            return Some(Asked::Replaced);
        }
        if !self.may_ask(node) {
            return None;
        }
        Some(self.ask(node).await).filter(|asked| *asked != Asked::Failed)
    }

    /// False if there is nothing to do: a wake-up whose request another round has served, or a poll
    /// right after a refresh.
    fn begin(&self, cause: Cause) -> bool {
        let mut state = self.control.state();
        let wanted = match cause {
            Cause::Empty => true,
            Cause::Request => state.requested,
            Cause::Interval => state.requested || !state.within(self.control.floor),
        };
        if wanted {
            state.requested = false;
            state.running = true;
        }
        wanted
    }

    fn end(&self) {
        let mut state = self.control.state();
        state.running = false;
        state.asking = None;
        state.failed.clear();
        // Under the lock, so that a later request waits for the next round.
        self.finished.send_modify(|finished| *finished += 1);
    }

    /// The nodes of the current configuration.
    fn known(&self) -> Vec<Address> {
        let Some(config) = self.store.load() else {
            return Vec::new();
        };
        let network = self.control.network.of(&config);
        let nodes = config.addresses(Service::Kv, self.control.tls, &network);
        nodes.collect()
    }

    fn take_next<'a>(&mut self, nodes: &'a [Address]) -> &'a Address {
        let randomness = &self.options.randomness;
        let at = self
            .next
            .unwrap_or_else(|| (randomness.roll() * nodes.len() as f64) as usize);
        let at = at % nodes.len();
        self.next = Some(at + 1);
        &nodes[at]
    }

    fn may_ask(&self, node: &Address) -> bool {
        let mut state = self.control.state();
        if state.failed.contains(node) != self.last_resort {
            return false;
        }
        state.asking = Some(node.clone());
        state.last_asked = Some(Instant::now());
        true
    }

    async fn ask(&self, node: &Address) -> Asked {
        let fetch = async { self.fetch.fetch(node.clone(), self.store.revision()).await };
        let mut fetch = pin!(timeout(self.options.fetch_timeout, fetch));
        // A panic fails this fetch only: polling continues.
        let mut fetch = poll_fn(|cx| {
            let poll = catch_unwind(AssertUnwindSafe(|| fetch.as_mut().poll(cx)));
            poll.unwrap_or_else(|_| Poll::Ready(Ok(Err("the fetch panicked".into()))))
        });
        let mut configs = self.store.watch();
        let fetched = loop {
            tokio::select! {
                biased;
                fetched = &mut fetch => break fetched,
                Ok(()) = configs.changed() => {
                    // One that stayed may have a newer one still.
                    let stays = self.known().contains(node) || self.options.seeds.contains(node);
                    if !stays {
                        return Asked::Replaced;
                    }
                }
                () = self.control.move_on.notified() => {
                    // The notification may be about a node of an earlier request.
                    if !self.last_resort && self.control.state().failed.contains(node) {
                        return Asked::Failed;
                    }
                }
            }
        };
        match fetched {
            Ok(Ok(config)) => match config.map(|config| self.store.compare_and_swap(config)) {
                Some(Swapped::OtherBucket) => {
                    tracing::debug!(%node, "the configuration of another bucket from this node");
                    Asked::Failed
                }
                _ => Asked::Answered,
            },
            Ok(Err(error)) => {
                tracing::debug!(%node, %error, "no configuration from this node");
                Asked::Failed
            }
            Err(_) => {
                tracing::debug!(%node, "no configuration from this node in time");
                Asked::Failed
            }
        }
    }
}
