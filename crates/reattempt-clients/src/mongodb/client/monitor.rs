//! Periodic checks of one server.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::handshake::Patience;
use super::{ClientOptions, Connection, MongoError, ServerDescription};
use crate::instant::after;

/// Checks `address` every heartbeat, and earlier on request, until `conclude` returns false: the
/// topology is gone. With `pause` the first check waits as a later one does.
pub(super) async fn run(
    address: String,
    options: Arc<ClientOptions>,
    check: Arc<Notify>,
    mut pause: bool,
    conclude: impl Fn(Result<ServerDescription, MongoError>) -> bool,
) {
    let mut connection = None;
    loop {
        let began = Instant::now();
        if !std::mem::take(&mut pause) {
            let found = look(&mut connection, &address, &options).await;
            if found.is_err() {
                connection = None;
            }
            if !conclude(found) {
                return;
            }
        }
        tokio::select! {
            () = check.notified() => {}
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
