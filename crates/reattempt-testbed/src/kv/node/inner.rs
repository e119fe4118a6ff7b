//! State shared by a node's handle and its tasks, and the accept loop.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::conn;
use super::seen::{SeenLog, SeenRequest};
use super::shared::Shared;
use super::step::{Script, Step};

/// Chooses the step of a request; `None` leaves the choice to the script.
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
    /// The step of the script, else of the handler, else execute the request.
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

/// The running tasks of a node. Dropping it ends them.
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

    /// Ends all tasks and waits until the node no longer listens.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        // An error means that the task ended early; then nothing listens either.
        let _ = self.accepting.await;
    }
}

async fn accept(listener: TcpListener, inner: Arc<Inner>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // A dropped handle also ends the loop, with an error here.
            _ = stopped.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of sockets: wait, because an immediate retry would spin.
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

/// Reserves a free port of 127.0.0.1 with a socket that never listens.
///
/// The socket keeps the port while a node is stopped: connections are refused, and no other test
/// gets the port.
pub(super) fn reserve() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = reusable(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// Listens at a reserved address.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    reusable(address)?.listen(1024)
}

fn reusable(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
