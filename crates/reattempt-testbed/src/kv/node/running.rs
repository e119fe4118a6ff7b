//! The tasks of a node: the accept loop and the connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::conn;
use super::inner::Inner;

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
