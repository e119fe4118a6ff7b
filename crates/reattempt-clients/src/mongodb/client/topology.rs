//! Server discovery and selection.

mod cluster_time;
#[cfg(test)]
mod tests;
mod watched;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::Document;
use rand::seq::IndexedRandom as _;
use reattempt_mongodb::labels::SYSTEM_OVERLOADED_ERROR;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::description::{ServerDescription, ServerKind, TopologyDescription, TopologyKind};
use super::state_change::state_change;
use super::{ClientOptions, During, MongoError, Pool, ReadPreference};
use crate::instant::after;
use crate::lock::lock;
use watched::Watched;

/// The deployment as seen by the client. Clones share it; the monitors end with the last clone.
#[derive(Debug, Clone)]
pub struct Topology {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Arc<ClientOptions>,
    description: watch::Sender<TopologyDescription>,
    watched: Mutex<BTreeMap<String, Watched>>,
    cluster_time: Mutex<Option<Document>>,
    /// Makes changes of a server's description and of its pool atomic: otherwise a check in between
    /// could show an available server whose pool refuses every call.
    concluding: Mutex<()>,
    /// How many times new servers were checked at once since then.
    renewals: Mutex<(Instant, u32)>,
}

/// A selected server.
#[derive(Debug, Clone)]
pub struct Selected {
    /// Its description.
    pub server: ServerDescription,
    /// The type of the deployment.
    pub topology: TopologyKind,
    /// Its connections.
    pub pool: Pool,
}

impl Topology {
    /// Starts to watch the seeds. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let description = TopologyDescription::new(
            &options.seeds,
            options.replica_set.clone(),
            options.direct_connection,
        );
        let inner = Arc::new(Inner {
            options: Arc::new(options),
            description: watch::Sender::new(description),
            watched: Mutex::default(),
            cluster_time: Mutex::default(),
            concluding: Mutex::default(),
            renewals: Mutex::new((Instant::now(), 0)),
        });
        inner.watch_servers();
        Self { inner }
    }

    /// The current description.
    #[must_use]
    pub fn description(&self) -> TopologyDescription {
        self.inner.description.borrow().clone()
    }

    /// Waits for a suitable server, and requests checks of all servers while there is none.
    ///
    /// Servers in `avoid` are selected only when no other is suitable; `deadline` ends the wait if
    /// it is before the end of `serverSelectionTimeoutMS`.
    ///
    /// # Errors
    ///
    /// [`MongoError::Selection`].
    pub async fn select(
        &self,
        preference: ReadPreference,
        deadline: Option<Instant>,
        avoid: &[String],
    ) -> Result<Selected, MongoError> {
        self.select_where(
            deadline,
            &format!("a server for {}", preference.name()),
            |known| {
                let suitable = known.suitable(preference, avoid);
                suitable.choose(&mut rand::rng()).copied().cloned()
            },
        )
        .await
    }

    /// Waits until this server is known.
    ///
    /// # Errors
    ///
    /// [`MongoError::Selection`].
    pub async fn select_pinned(
        &self,
        address: &str,
        deadline: Option<Instant>,
    ) -> Result<Selected, MongoError> {
        self.select_where(deadline, address, |known| {
            let all = known.suitable(ReadPreference::Nearest, &[]);
            all.into_iter()
                .find(|server| server.address == address)
                .cloned()
        })
        .await
    }

    async fn select_where(
        &self,
        deadline: Option<Instant>,
        wanted: &str,
        choose: impl Fn(&TopologyDescription) -> Option<ServerDescription>,
    ) -> Result<Selected, MongoError> {
        let began = Instant::now();
        let own = after(began, self.inner.options.server_selection_timeout);
        let deadline = deadline.map_or(own, |deadline| deadline.min(own));
        let mut changes = self.inner.description.subscribe();
        loop {
            let (chosen, topology) = {
                let known = changes.borrow_and_update();
                (choose(&known), known.kind)
            };
            if let Some(server) = chosen {
                let pool = lock(&self.inner.watched)
                    .get(&server.address)
                    .map(|w| w.pool.clone());
                // Without a pool it was just removed; the change will be notified.
                if let Some(pool) = pool {
                    return Ok(Selected {
                        server,
                        topology,
                        pool,
                    });
                }
            }
            self.request_checks();
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    let known = self.inner.description.borrow();
                    let message = format!("did not find {wanted}: {}", *known);
                    return Err(MongoError::Selection { message, waited: began.elapsed() });
                }
            }
        }
    }

    /// Waits until every known server was checked once, including those that others list, for at
    /// most `limit`.
    ///
    /// A selection does not need this: it uses the first suitable server. For callers that want the
    /// same choice every time.
    pub async fn looked_around(&self, limit: Duration) {
        let mut changes = self.inner.description.subscribe();
        let looked_at = |known: &TopologyDescription| {
            let heard = |server: &ServerDescription| {
                server.kind != ServerKind::Unknown || server.error.is_some()
            };
            known.servers.values().all(heard)
        };
        // The sender lives as long as `self`; a timeout is fine.
        let _ = timeout(limit, changes.wait_for(looked_at)).await;
    }

    /// Requests a check of every server, as soon as the minimum interval allows.
    pub fn request_checks(&self) {
        for watched in lock(&self.inner.watched).values() {
            watched.requests.check.notify_one();
        }
    }

    /// Updates the state after a failed call, before its error is returned (M20, M27).
    ///
    /// Failures on connections older than the last clearing of the pool are ignored, and those of a
    /// pool whose server has been removed, even if a server is known by that address again.
    pub fn on_error(&self, pool: &Pool, generation: u64, error: &MongoError) {
        let address = pool.address();
        let _together = lock(&self.inner.concluding);
        let watched = lock(&self.inner.watched)
            .get(address)
            .filter(|watched| watched.pool.is(pool))
            .map(|watched| Arc::clone(&watched.requests));
        let Some(requests) = watched.filter(|_| generation >= pool.generation()) else {
            return;
        };
        let was_known = self.inner.knows(address);
        let (unknown, clear) = match error {
            // An overloaded server is available: its connections stay (client backpressure, 2025).
            // One that is gone fails in the same way, and only a check tells the two apart.
            _ if error.in_handshake() && error.has_label(SYSTEM_OVERLOADED_ERROR) => {
                return requests.check.notify_one();
            }
            _ if error.in_handshake() => (true, true),
            MongoError::Network { .. } => (true, true),
            // A slow reply does not mean that the server is down.
            MongoError::SocketTimeout {
                during: During::Send | During::Receive,
                ..
            } => (false, false),
            MongoError::Server(error) => state_change(error),
            _ => (false, false),
        };
        // Before the server becomes unknown. Calls that fail together with this one leave the check
        // that it requests.
        if unknown && was_known {
            requests.changed();
        }
        if unknown {
            self.inner
                .apply(ServerDescription::failed(address, error.to_string()));
        }
        if clear {
            pool.clear();
        }
        if matches!(
            error,
            MongoError::Network { .. } | MongoError::Connect { .. }
        ) {
            requests.cancel();
        }
        if unknown {
            // Last, because the requested check makes the pool ready again.
            requests.check.notify_one();
        }
    }
}

impl Inner {
    /// Applies the result of a check or a failed call. Wakes waiting selections even when nothing
    /// changed, so that they request another check.
    fn apply(self: &Arc<Self>, new: ServerDescription) {
        self.description.send_modify(|known| known.apply(new));
        self.watch_servers();
    }

    /// Whether the last check or call of this server succeeded.
    fn knows(&self, address: &str) -> bool {
        let known = self.description.borrow();
        let server = known.servers.get(address);
        server.is_some_and(|server| server.kind != ServerKind::Unknown)
    }

    /// A check succeeded: the server is available and its pool becomes ready.
    fn seen(self: &Arc<Self>, found: ServerDescription) {
        let _together = lock(&self.concluding);
        // Before the description is published: a caller that selects it must find its pool ready.
        if let Some(watched) = lock(&self.watched).get(&found.address) {
            watched.pool.ready();
        }
        self.apply(found);
    }

    /// A check failed: the server is unknown, and its connections are closed. A server that did not
    /// answer in time will not answer the calls in flight either.
    fn lost(self: &Arc<Self>, address: &str, error: &MongoError) {
        let _together = lock(&self.concluding);
        self.apply(ServerDescription::failed(address, error.to_string()));
        let pool = lock(&self.watched)
            .get(address)
            .map(|watched| watched.pool.clone());
        if let Some(pool) = pool {
            pool.clear();
            if error.is_timeout() {
                pool.interrupt();
            }
        }
    }
}
