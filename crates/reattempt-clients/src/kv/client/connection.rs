//! One connection to a node, and the future of one request on it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::bootstrap::Setup;
use super::driver;
use super::error::{ClientError, CloseReason};
use super::limit::Limit;
use super::options::ClientOptions;
use super::request::KvRequest;
use super::response::KvResponse;
use super::state::{Outcome, Shared};
use crate::dial;
use crate::instant::after;

/// Connection numbers, unique in this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One socket with any number of requests; responses are matched by opaque.
///
/// Clones share the socket. It is closed when the last clone and the last future of a request are
/// dropped, and by a response that makes it unusable ([`Status::closes_connection`]; "no bucket"
/// only if it had selected one): the other requests in flight then fail.
///
/// [`Status::closes_connection`]: reattempt_couchbase::kv::Status::closes_connection
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
    limit: Limit,
}

/// Keeps the driver alive.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.begin_close();
    }
}

impl Connection {
    /// Connects to `host:port` and runs the bootstrap.
    pub async fn connect(address: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let address: Arc<str> = address.into();
        let limit = options.connect_timeout;
        let deadline = after(Instant::now(), limit);
        let connecting = Self::connect_until(deadline, address.clone(), options);
        match timeout_at(deadline, connecting).await {
            // The last address was given all the time that was left.
            Ok(Err(ClientError::Connect { .. })) if Instant::now() >= deadline => {}
            Ok(result) => return result,
            Err(_) => {}
        }
        Err(ClientError::ConnectTimeout { address, limit })
    }

    /// Dials until `deadline`; the bootstrap has no limit.
    async fn connect_until(
        deadline: Instant,
        address: Arc<str>,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect {
            address: address.clone(),
            source: Arc::new(error),
        };
        let found = dial::look_up(&address, deadline).await.map_err(failed)?;
        let stream = dial::connect(&found, deadline).await.map_err(failed)?;
        let mut setup = Setup::new(address.clone(), stream, options);
        let agreed = setup.run().await?;
        if let (Some(map), Some(hook)) = (&agreed.error_map, &options.on_error_map) {
            hook(map, &address);
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let on_config = options.on_config.clone();
        let config = agreed.config.clone();
        let shared = Arc::new(Shared::new(address, id, agreed, on_config));
        if let Some(config) = &config {
            shared.config_arrived(config);
        }
        tokio::spawn(driver::run(
            shared.clone(),
            setup.stream,
            setup.input,
            options.max_body,
            options.read_timeout,
        ));
        Ok(Self {
            handle: Arc::new(Handle(shared)),
            limit: Limit::new(options.max_in_flight),
        })
    }

    /// The node, `host:port` as given.
    pub fn address(&self) -> &str {
        self.handle.0.address()
    }

    /// The number of this connection, unique in this process; responses carry it.
    pub fn id(&self) -> u64 {
        self.handle.0.origin.id
    }

    /// Whether no further request can be sent.
    pub fn is_closed(&self) -> bool {
        self.handle.0.is_closed()
    }

    /// The HELLO features that the node granted.
    pub fn features(&self) -> &[u16] {
        &self.handle.0.features
    }

    /// The error map as sent by the node.
    pub fn error_map_json(&self) -> Option<Bytes> {
        self.handle.0.error_map.clone()
    }

    /// The last cluster configuration received on this connection.
    pub fn cluster_config_json(&self) -> Option<Bytes> {
        self.handle.0.config()
    }

    /// The number of responses without a waiting request.
    pub fn ignored_answers(&self) -> u64 {
        self.handle.0.ignored()
    }

    /// The number of requests waiting for a response.
    pub fn outstanding(&self) -> usize {
        self.handle.0.outstanding()
    }

    /// How many of these were sent, at least their first byte.
    pub fn in_flight(&self) -> usize {
        self.handle.0.in_flight()
    }

    /// Closes the socket; requests without a response fail.
    pub fn close(&self) {
        self.handle.0.begin_close();
    }

    /// Sends a request. It is queued at once, even when the future is never polled.
    pub(super) fn send(
        &self,
        request: &KvRequest,
        permit: Option<OwnedSemaphorePermit>,
    ) -> ResponseFuture {
        let (opaque, state) = match self.handle.0.enqueue(request) {
            Ok((opaque, outcome)) => (Some(opaque), State::Waiting(outcome)),
            Err(error) => (None, State::Failed(Box::new(error))),
        };
        ResponseFuture {
            state,
            slot: Slot {
                handle: self.handle.clone(),
                opaque,
            },
            _permit: permit,
        }
    }
}

impl Service<KvRequest> for Connection {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.limit.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, request: KvRequest) -> ResponseFuture {
        let permit = self.limit.take();
        self.send(&request, Some(permit))
    }
}

/// The entry of a waiting request; dropping it frees the opaque.
#[derive(Debug)]
struct Slot {
    handle: Arc<Handle>,
    opaque: Option<u32>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(opaque) = self.opaque {
            self.handle.0.forget(opaque);
        }
    }
}

#[derive(Debug)]
enum State {
    Waiting(oneshot::Receiver<Outcome>),
    // Boxed, so that every other request has a small future.
    Failed(Box<ClientError>),
    Done,
}

/// The response to one request. Dropping it frees the request's slot; a late response is ignored.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct ResponseFuture {
    state: State,
    slot: Slot,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ResponseFuture {
    pub(super) fn address(&self) -> &Arc<str> {
        self.slot.handle.0.address()
    }
}

impl Future for ResponseFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let State::Waiting(outcome) = &mut self.state {
            let outcome = ready!(Pin::new(outcome).poll(cx));
            self.state = State::Done;
            // Who reports an outcome has removed the entry.
            self.slot.opaque = None;
            // The driver always reports how a request ended. Without a report the outcome is
            // unknown.
            return Poll::Ready(outcome.unwrap_or_else(|_| {
                Err(ClientError::ClosedInFlight {
                    address: self.address().clone(),
                    reason: CloseReason::Local,
                })
            }));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Failed(error) => Poll::Ready(Err(*error)),
            State::Waiting(_) | State::Done => panic!("polled after completion"),
        }
    }
}
