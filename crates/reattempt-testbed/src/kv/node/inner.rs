//! What the handle of a node and its tasks share, and the task that accepts connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::conn;
use super::seen::{SeenLog, SeenRequest};
use super::shared::Shared;
use super::step::{Script, Step};

/// Decides what to do with a request; `None` leaves it to the script.
pub(super) type Handler = Arc<dyn Fn(&SeenRequest) -> Option<Step> + Send + Sync>;

/// One node.
pub(super) struct Inner {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) script: Script,
    pub(super) handler: Option<Handler>,
    pub(super) bootstrap_handler: Option<Handler>,
    pub(super) seen: Mutex<SeenLog>,
    pub(super) connections: AtomicU64,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The script's word first, then the handler's, then carry it out.
    pub(super) fn step_for(&self, request: &SeenRequest) -> Step {
        if let Some(step) = self.script.take(request.opcode) {
            return step;
        }
        let handler = if request.is_bootstrap() {
            &self.bootstrap_handler
        } else {
            &self.handler
        };
        handler
            .as_ref()
            .and_then(|handler| handler(request))
            .unwrap_or_default()
    }
}

/// The running part of a node. Dropping it ends everything.
#[derive(Debug)]
pub(super) struct Running {
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(listener: TcpListener, inner: Arc<Inner>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, inner, stopped));
        Self { stop, accepting }
    }

    /// Ends everything and waits until the port is free.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        // The task does not panic; if it were aborted the port is free as well.
        let _ = self.accepting.await;
    }
}

async fn accept(listener: TcpListener, inner: Arc<Inner>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Also when the handle was dropped, which makes it an error.
            _ = stopped.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of sockets for a moment: asking again at once would only spin.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let number = inner.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let inner = inner.clone();
                connections.spawn(async move { conn::serve(&inner, stream, number).await });
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Binds an address again that was in use a moment ago.
pub(super) async fn bind_again(address: SocketAddr) -> io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < 100 => tries += 1,
            result => return result,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
