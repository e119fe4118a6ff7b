//! The servers that are watched, each by its monitor.

use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Inner;
use crate::instant::after;
use crate::lock::lock;
use crate::mongodb::client::description::MAX_SERVERS;
use crate::mongodb::client::monitor::{self, Requests};
use crate::mongodb::client::{MongoError, Pool, ServerDescription};

/// How often in a minimum interval new servers are checked at once, wherever they come from: a
/// replica set is known after two or three. Servers that name ever new ones set no faster pace.
const MOST_RENEWALS: u32 = 4;

/// A server with its pool and its monitor.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) pool: Pool,
    pub(super) requests: Arc<Requests>,
    monitor: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.monitor.abort();
    }
}

impl Inner {
    /// Creates a monitor and a pool for each known server, and removes the others.
    pub(super) fn watch_servers(self: &Arc<Self>) {
        let mut watched = lock(&self.watched);
        let known = self.description.borrow();
        watched.retain(|address, watched| {
            let stays = known.servers.contains_key(address);
            if !stays {
                // Who waits for one of its connections would wait for ever.
                watched.pool.clear();
            }
            stays
        });
        let is_new = |name: &String| !watched.contains_key(name);
        let at_once =
            watched.len() < MAX_SERVERS && known.servers.keys().any(is_new) && self.renews();
        for (address, server) in &known.servers {
            if watched.contains_key(address) || watched.len() >= MAX_SERVERS {
                continue;
            }
            let requests = Arc::new(Requests::default());
            let looking = monitor::run(
                address.clone(),
                Arc::clone(&self.options),
                Arc::clone(&requests),
                // It is a seed again. Two servers that send the client back and forth would
                // otherwise keep it busy.
                server.error.is_some() || !at_once,
                conclude(Arc::downgrade(self), address.clone()),
            );
            let monitor = tokio::spawn(looking).abort_handle();
            let pool = Pool::new(address, Arc::clone(&self.options));
            watched.insert(
                address.clone(),
                Watched {
                    pool,
                    requests,
                    monitor,
                },
            );
        }
    }

    /// Whether new servers are checked at once, or wait for the minimum interval.
    fn renews(&self) -> bool {
        let now = Instant::now();
        let mut renewals = lock(&self.renewals);
        if now >= after(renewals.0, self.options.min_heartbeat) {
            *renewals = (now, 0);
        }
        renewals.1 = renewals.1.saturating_add(1);
        renewals.1 <= MOST_RENEWALS
    }
}

/// Applies the result of a check; false when the topology is gone.
fn conclude(
    topology: Weak<Inner>,
    address: String,
) -> impl Fn(Result<ServerDescription, MongoError>) -> bool + Send + Sync {
    move |found| {
        let Some(topology) = topology.upgrade() else {
            return false;
        };
        match found {
            Ok(description) => topology.seen(description),
            Err(error) => topology.lost(&address, &error),
        }
        true
    }
}
