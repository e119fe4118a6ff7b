//! A scripted tonic server.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::shop::cart_server::{Cart, CartServer};
use super::{Item, Receipt, within};

/// The handling of one call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Responds as the method does.
    Serve,
    /// A status only, before the request was read.
    Fail(Status),
    /// The same after the whole request was read.
    FailAfterReading(Status),
    /// No response.
    Hang,
    /// A stream of this many items, then nothing more.
    HangAfter(usize),
    /// A stream of this many items, then this status.
    FailAfter(usize, Status),
}

/// A call as the server saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) metadata: MetadataMap,
    /// Items that were read.
    pub(crate) items: Vec<Item>,
    /// The caller dropped the call before the end.
    pub(crate) cancelled: bool,
}

impl Seen {
    /// `grpc-previous-rpc-attempts`.
    pub(crate) fn previous(&self) -> Option<&str> {
        self.metadata
            .get("grpc-previous-rpc-attempts")
            .and_then(|value| value.to_str().ok())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.items.iter().map(|item| item.name.as_str()).collect()
    }
}

#[derive(Debug, Default)]
struct Shared {
    steps: Mutex<VecDeque<Step>>,
    seen: watch::Sender<Vec<Seen>>,
}

impl Shared {
    fn steps(&self) -> MutexGuard<'_, VecDeque<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call arrived.
    fn begin(self: &Arc<Self>, metadata: &MetadataMap) -> (Step, Served) {
        let step = self.steps().pop_front().unwrap_or(Step::Serve);
        let mut number = 0;
        self.seen.send_modify(|seen| {
            number = seen.len();
            seen.push(Seen {
                metadata: metadata.clone(),
                ..Seen::default()
            });
        });
        let served = Served {
            shared: Arc::clone(self),
            number,
            ended: false,
        };
        (step, served)
    }
}

/// One call; if dropped before its end it was cancelled.
struct Served {
    shared: Arc<Shared>,
    number: usize,
    ended: bool,
}

impl Served {
    fn note(&self, change: impl FnOnce(&mut Seen)) {
        self.shared
            .seen
            .send_modify(|seen| change(&mut seen[self.number]));
    }

    fn item(&self, item: Item) {
        self.note(|seen| seen.items.push(item));
    }

    async fn read_all(&self, mut items: Streaming<Item>) -> Result<Vec<Item>, Status> {
        let mut all = Vec::new();
        while let Some(item) = items.message().await? {
            self.item(item.clone());
            all.push(item);
        }
        Ok(all)
    }

    fn end(mut self) {
        self.ended = true;
    }

    /// Ends with this status.
    fn fail(self, status: Status) -> Status {
        self.end();
        status
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.ended {
            self.note(|seen| seen.cancelled = true);
        }
    }
}

type Items = ReceiverStream<Result<Item, Status>>;

/// A channel that holds one item, so that nothing is sent long before it is read.
fn items() -> (mpsc::Sender<Result<Item, Status>>, Response<Items>) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Response::new(ReceiverStream::new(receiver)))
}

/// Sends these items, and ends if told to; notes a caller that drops the call earlier.
fn send(
    all: impl Iterator<Item = Result<Item, Status>> + Send + 'static,
    ends: bool,
    served: Served,
) -> Response<Items> {
    let (sender, response) = items();
    tokio::spawn(async move {
        for item in all {
            if sender.send(item).await.is_err() {
                return;
            }
        }
        if ends {
            served.end();
        } else {
            sender.closed().await;
        }
    });
    response
}

#[tonic::async_trait]
impl Cart for Arc<Shared> {
    type ListStream = Items;
    type SwapStream = Items;

    async fn add(&self, request: Request<Item>) -> Result<Response<Receipt>, Status> {
        let (step, served) = self.begin(request.metadata());
        let item = request.into_inner();
        served.item(item.clone());
        match step {
            Step::Fail(status) | Step::FailAfterReading(status) => return Err(served.fail(status)),
            Step::Hang => std::future::pending().await,
            _ => {}
        }
        served.end();
        Ok(Response::new(Receipt {
            names: vec![item.name],
        }))
    }

    async fn list(&self, request: Request<Item>) -> Result<Response<Items>, Status> {
        let (step, served) = self.begin(request.metadata());
        let Item { name, count } = request.into_inner();
        let all = (0..count).map(move |n| {
            Ok(Item {
                name: name.clone(),
                count: n,
            })
        });
        Ok(match step {
            Step::Fail(status) | Step::FailAfterReading(status) => return Err(served.fail(status)),
            Step::HangAfter(n) => send(all.take(n), false, served),
            Step::FailAfter(n, status) => send(all.take(n).chain([Err(status)]), true, served),
            Step::Hang => std::future::pending().await,
            _ => send(all, true, served),
        })
    }

    async fn fill(&self, request: Request<Streaming<Item>>) -> Result<Response<Receipt>, Status> {
        let (step, served) = self.begin(request.metadata());
        if let Step::Fail(status) = step {
            return Err(served.fail(status));
        }
        let incoming = request.into_inner();
        let all = served.read_all(incoming).await?;
        match step {
            Step::FailAfterReading(status) => return Err(served.fail(status)),
            Step::Hang => std::future::pending().await,
            _ => {}
        }
        served.end();
        Ok(Response::new(Receipt {
            names: all.into_iter().map(|item| item.name).collect(),
        }))
    }

    async fn swap(&self, request: Request<Streaming<Item>>) -> Result<Response<Items>, Status> {
        let (step, served) = self.begin(request.metadata());
        let mut incoming = request.into_inner();
        match step {
            Step::Fail(status) => return Err(served.fail(status)),
            Step::FailAfterReading(status) => {
                served.read_all(incoming).await?;
                return Err(served.fail(status));
            }
            Step::Hang => std::future::pending().await,
            _ => {}
        }
        let (sender, response) = items();
        tokio::spawn(async move {
            while let Ok(Some(item)) = incoming.message().await {
                served.item(item.clone());
                if sender.send(Ok(item)).await.is_err() {
                    return;
                }
            }
            served.end();
        });
        Ok(response)
    }
}

/// A server on loopback on its own thread, with its own timers. A single thread, so that calls get
/// their steps in order of arrival.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    drain: Option<oneshot::Sender<()>>,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Server {
    /// Follows these steps for the first calls, and serves the others.
    pub(crate) async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), steps).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        steps: impl IntoIterator<Item = Step>,
    ) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("an option");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            steps: Mutex::new(steps.into_iter().collect()),
            seen: watch::Sender::default(),
        });
        let cart = CartServer::new(Arc::clone(&shared))
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip);
        let (drain, drained) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let serve = async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let serve = tonic::transport::Server::builder()
                .add_service(cart)
                .serve_with_incoming_shutdown(TcpIncoming::from(listener), async {
                    // A server that is not asked to drain never does.
                    if drained.await.is_err() {
                        std::future::pending().await
                    }
                });
            tokio::select! {
                _ = serve => {}
                _ = ended => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let thread = std::thread::spawn(move || runtime.block_on(serve));
        Self {
            shared,
            address,
            drain: Some(drain),
            end: Some((end, thread)),
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All calls so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// All calls, once the condition holds.
    pub(crate) async fn seen_when(&self, wanted: impl FnMut(&Vec<Seen>) -> bool) -> Vec<Seen> {
        let mut seen = self.shared.seen.subscribe();
        let seen = within(seen.wait_for(wanted)).await;
        seen.expect("the server holds the sender").clone()
    }

    /// Accepts no more calls (GOAWAY) and exits after its open calls.
    pub(crate) fn drain(&mut self) {
        if let Some(drain) = self.drain.take() {
            drain.send(()).expect("the server is running");
        }
    }

    /// Waits until it has exited.
    pub(crate) async fn wait_gone(&mut self) {
        if let Some((end, thread)) = &mut self.end {
            within(end.closed()).await;
            while !thread.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        self.kill();
    }

    /// Stops it and all its connections at once. Its port is free afterwards.
    pub(crate) fn kill(&mut self) {
        if let Some((end, thread)) = self.end.take() {
            // It may have exited already.
            let _ = end.send(());
            thread.join().expect("a server that works");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
