//! The kind `listener`: addresses that no server answers at.

use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::names;
use crate::expand::Names;
use crate::members::Result;

pub(crate) struct Listener {
    address: String,
    _held: Held,
}

/// Keeps the port: the server of another test would get it otherwise, and count this test's
/// connections as its own.
#[allow(dead_code, reason = "held until it is dropped")]
enum Held {
    /// Refuses, because it does not listen.
    Bound(TcpSocket),
    Listening(TcpListener, Option<TcpStream>),
}

impl Listener {
    /// `refuses` connections, is `full`, so that a connect waits, or is `silent`: a connect
    /// succeeds, and nothing is read.
    pub(super) async fn start(what: &Value) -> Result<Self> {
        let text = |error: std::io::Error| error.to_string();
        let socket = TcpSocket::new_v4().map_err(text)?;
        socket.bind(([127, 0, 0, 1], 0).into()).map_err(text)?;
        let address = socket.local_addr().map_err(text)?;
        let held = match what.as_str() {
            Some("refuses") => Held::Bound(socket),
            Some("silent") => Held::Listening(socket.listen(1024).map_err(text)?, None),
            Some("full") => {
                let listener = socket.listen(0).map_err(text)?;
                // Fills the queue of pending connections.
                let filling = TcpStream::connect(address).await.map_err(text)?;
                Held::Listening(listener, Some(filling))
            }
            _ => return Err(format!("listener: refuses, full or silent, got {what}")),
        };
        let address = address.to_string();
        Ok(Self {
            address,
            _held: held,
        })
    }

    pub(super) fn names(&self) -> Names {
        names(self.address.clone(), &self.address)
    }
}
