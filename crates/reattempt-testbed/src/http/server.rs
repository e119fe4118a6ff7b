//! A scripted server of any protocol: its address, its script and the recorded calls.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::desk::Desk;
use super::options::Options;
use super::script::Script;
use crate::lock::lock;

/// A protocol that a [`Server`] can speak: [`Http`](super::Http) or [`Grpc`](crate::grpc::Grpc).
pub trait Wire: Sized + Send + Sync + 'static {
    /// The record of one call.
    type Seen: Clone + fmt::Debug + Send + Sync + 'static;
    /// What can be done with a call. The default is plain success.
    type Step: Clone + fmt::Debug + Default + Send + Sync + 'static;

    /// Whether the client cancelled the call before it was answered.
    fn was_cancelled(seen: &Self::Seen) -> bool;

    /// Serves one connection to its end.
    fn serve(connection: Connection<Self>) -> impl Future<Output = ()> + Send;
}

type DeskOf<P> = Desk<<P as Wire>::Seen, <P as Wire>::Step>;
type ScriptOf<P> = Script<<P as Wire>::Seen, <P as Wire>::Step>;

/// One accepted connection.
pub struct Connection<P: Wire> {
    pub(crate) socket: TcpStream,
    pub(crate) number: u64,
    pub(crate) desk: Arc<DeskOf<P>>,
}

impl<P: Wire> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A running server. Stopping or dropping it ends all its tasks.
pub struct Server<P: Wire> {
    address: SocketAddr,
    desk: Arc<DeskOf<P>>,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// Dropping it stops the accept loop.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl<P: Wire> Server<P> {
    /// Starts on a free port of 127.0.0.1. Fails when no port is available.
    pub async fn start(script: impl Into<ScriptOf<P>>) -> io::Result<Self> {
        Self::start_with(Options::new(), script).await
    }

    /// Starts with `options`. Fails when the address cannot be bound.
    pub async fn start_with(options: Options, script: impl Into<ScriptOf<P>>) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk::new(options, script.into()));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept::<P>(listener, Arc::clone(&desk), stopped));
        let running = Mutex::new(Some(Running { stop, task }));
        Ok(Self {
            address,
            desk,
            running,
        })
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URI without a path, `http://127.0.0.1:1234`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops listening and breaks every connection; the port is free afterwards. Recorded calls
    /// stay readable. A second call does nothing.
    pub async fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(Running { stop, task }) = running {
            drop(stop);
            // An error means that the accept loop panicked; it has ended as well.
            let _ = task.await;
        }
    }

    /// Breaks every open connection at once and continues to listen.
    pub fn drop_connections(&self) {
        self.desk.drop_all.notify_one();
    }

    /// Replaces the whole script, including remaining steps.
    pub fn set_script(&self, script: impl Into<ScriptOf<P>>) {
        *lock(&self.desk.script) = script.into();
    }

    /// All recorded calls, in order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<P::Seen> {
        self.desk.log.all()
    }

    /// The number of calls since the start.
    #[must_use]
    pub fn seen_count(&self) -> usize {
        self.desk.log.total()
    }

    /// Drops the recorded calls; the count continues.
    pub fn forget(&self) {
        self.desk.log.clear();
    }

    /// The calls that the client cancelled before they were answered.
    #[must_use]
    pub fn cancelled(&self) -> Vec<P::Seen> {
        self.seen().into_iter().filter(P::was_cancelled).collect()
    }

    /// Waits until `count` calls have arrived since the start. Without them it waits forever.
    pub async fn wait_seen(&self, count: usize) -> Vec<P::Seen> {
        self.desk.log.wait_total(count).await
    }

    /// Waits until `count` recorded calls satisfy `test`, and returns those.
    pub async fn wait_for(&self, count: usize, test: impl Fn(&P::Seen) -> bool) -> Vec<P::Seen> {
        self.desk.log.wait(count, test).await
    }

    /// The number of open HTTP/2 streams: neither answered completely nor cancelled by the client.
    #[must_use]
    pub fn streams_open(&self) -> usize {
        self.desk.answering.load(Ordering::Acquire)
    }

    /// The number of connections accepted since the start.
    #[must_use]
    pub fn connections_accepted(&self) -> u64 {
        self.desk.accepted.load(Ordering::Acquire)
    }
}

impl<P: Wire> fmt::Debug for Server<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("seen", &self.seen_count())
            .finish_non_exhaustive()
    }
}

async fn accept<P: Wire>(
    listener: TcpListener,
    desk: Arc<DeskOf<P>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            () = desk.drop_all.notified() => connections.abort_all(),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    let number = desk.accepted.fetch_add(1, Ordering::AcqRel);
                    // Small frames must be sent at once; a failure only costs time.
                    let _ = socket.set_nodelay(true);
                    let connection = Connection { socket, number, desk: Arc::clone(&desk) };
                    connections.spawn(P::serve(connection));
                }
                // No file handles are left, or the client has disconnected: do not spin.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}
