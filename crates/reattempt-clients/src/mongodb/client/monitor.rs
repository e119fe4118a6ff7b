//! Periodic checks of one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::handshake::Patience;
use super::{ClientOptions, Connection, MongoError, ServerDescription};
use crate::instant::after;

/// The requests to a monitor.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// A check, as soon as the minimum interval allows.
    pub(super) check: Notify,
    /// The end of a check in progress, without a result.
    cancel: Notify,
    /// The connection of earlier checks is not used again.
    suspect: AtomicBool,
    /// The state of the server changed since the check in progress began.
    changed: AtomicBool,
}

impl Requests {
    /// A connection of the server failed: the monitor's own may be as dead, or show the server as
    /// it was before.
    pub(super) fn cancel(&self) {
        // A monitor between two checks is not notified: it sees this before its next one.
        self.suspect.store(true, Ordering::Relaxed);
        self.cancel.notify_waiters();
    }

    /// The server says that its state changed: the answer of a check in progress may show it as it
    /// was before, and a retry would go to the old primary.
    pub(super) fn changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

/// Checks `address` every heartbeat, and earlier on request, until `conclude` returns false: the
/// topology is gone. With `pause` the first check waits as a later one does.
pub(super) async fn run(
    address: String,
    options: Arc<ClientOptions>,
    requests: Arc<Requests>,
    mut pause: bool,
    conclude: impl Fn(Result<ServerDescription, MongoError>) -> bool,
) {
    let mut connection = None;
    loop {
        let began = Instant::now();
        if requests.suspect.swap(false, Ordering::Relaxed) {
            connection = None;
        }
        if !std::mem::take(&mut pause) {
            requests.changed.store(false, Ordering::Relaxed);
            let found = tokio::select! {
                biased;
                // First: an answer from before the failure says nothing of the server after it.
                () = requests.cancel.notified() => None,
                found = look(&mut connection, &address, &options) => Some(found),
            };
            if !matches!(found, Some(Ok(_))) {
                connection = None;
            }
            // The error that changed it has requested another check.
            let changed = || requests.changed.load(Ordering::Relaxed);
            let found = found.filter(|found| found.is_err() || !changed());
            if found.is_some_and(|found| !conclude(found)) {
                return;
            }
        }
        tokio::select! {
            () = requests.check.notified() => {}
            () = sleep_until(after(began, options.heartbeat_frequency)) => {}
        }
        sleep_until(after(began, options.min_heartbeat)).await;
    }
}

async fn look(
    connection: &mut Option<Connection>,
    address: &str,
    options: &ClientOptions,
) -> Result<ServerDescription, MongoError> {
    if let Some(open) = connection {
        match open
            .hello(options, None, Patience::of_monitor(options))
            .await
        {
            Ok(description) => return Ok(description),
            // The connection may simply have expired: a new one decides.
            Err(MongoError::Network { .. }) => *connection = None,
            Err(error) => return Err(error),
        }
    }
    let opened = Connection::open(address, options, false).await?;
    let description = opened.description().clone();
    *connection = Some(opened);
    Ok(description)
}
