//! State shared by the handles of a connection and its driver: requests that wait for a response.

mod requests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::{ErrorMap, cluster_config};
use tokio::sync::{Notify, oneshot};

use crate::kv::feature::{FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS};
use crate::kv::frame::ReceivedFrame;

use super::bootstrap::Agreed;
use super::error::{ClientError, CloseReason};
use super::options::OnBytes;
use super::request::{Collection, KvRequest};
use super::response::{KvResponse, Origin};
use crate::lock::lock;
use requests::{Pending, Progress, Requests};

/// The result of a request.
pub(super) type Outcome = Result<KvResponse, ClientError>;

/// Shared by the handles and the driver of one connection.
pub(super) struct Shared {
    pub(super) origin: Arc<Origin>,
    pub(super) collections: bool,
    framing_extras: bool,
    bucket: bool,
    pub(super) features: Vec<u16>,
    /// The error map as it was sent; `origin` has the parsed one.
    pub(super) error_map: Option<Bytes>,
    pub(super) on_config: Option<OnBytes>,
    /// Wakes the driver: a request is queued, or the connection is to be closed.
    pub(super) wake: Notify,
    config: Mutex<Option<Bytes>>,
    ignored: AtomicU64,
    requests: Mutex<Requests>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("address", self.address())
            .field("id", &self.origin.id)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        address: Arc<str>,
        id: u64,
        agreed: Agreed,
        on_config: Option<OnBytes>,
    ) -> Self {
        let error_map = agreed
            .error_map
            .as_deref()
            .and_then(|map| read(map, &address))
            .map(Arc::new);
        let granted = |feature| agreed.features.contains(&feature);
        let (collections, framing_extras) =
            (granted(FEATURE_COLLECTIONS), granted(FEATURE_ALT_REQUEST));
        Self {
            origin: Arc::new(Origin {
                address,
                id,
                error_map,
            }),
            collections,
            framing_extras,
            bucket: agreed.bucket,
            features: agreed.features,
            error_map: agreed.error_map,
            on_config,
            wake: Notify::new(),
            config: Mutex::new(None),
            ignored: AtomicU64::new(0),
            requests: Mutex::new(Requests {
                next_opaque: agreed.next_opaque,
                ..Requests::default()
            }),
        }
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.origin.address
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        lock(&self.requests)
    }

    /// Queues a request with a new opaque.
    pub(super) fn enqueue(
        &self,
        request: &KvRequest,
    ) -> Result<(u32, oneshot::Receiver<Outcome>), ClientError> {
        match &request.collection {
            _ if !request.is_keyed() => {}
            // Without the id it would be sent to the default collection.
            Collection::Named(path) => {
                return Err(ClientError::UnresolvedCollection {
                    address: self.address().clone(),
                    path: Arc::clone(path),
                });
            }
            Collection::Id(id) if *id != 0 && !self.collections => {
                return Err(ClientError::NoCollections {
                    address: self.address().clone(),
                    collection: *id,
                });
            }
            Collection::Id(_) => {}
        }
        if !request.framing().is_empty() && !self.framing_extras {
            // The node would close the connection, or misread the key.
            return Err(ClientError::NoFramingExtras {
                address: self.address().clone(),
            });
        }
        let (done, outcome) = oneshot::channel();
        let mut requests = self.requests();
        if let Some(reason) = &requests.closed {
            return Err(self.not_sent(reason.clone()));
        }
        if requests.closing {
            return Err(self.not_sent(CloseReason::Local));
        }
        let mut opaque = requests.next_opaque;
        while requests.pending.contains_key(&opaque) {
            opaque = opaque.wrapping_add(1);
        }
        let bytes = request
            .encode(opaque, self.collections)
            .map_err(ClientError::Invalid)?;
        requests.next_opaque = opaque.wrapping_add(1);
        let pending = Pending {
            opcode: request.opcode,
            progress: Progress::Queued(bytes),
            done,
        };
        requests.pending.insert(opaque, pending);
        requests.queue.push_back(opaque);
        drop(requests);
        self.wake.notify_one();
        Ok((opaque, outcome))
    }

    /// Frees the slot of a dropped request. A request that is still queued is not sent.
    pub(super) fn forget(&self, opaque: u32) {
        let mut requests = self.requests();
        let dropped = requests.pending.remove(&opaque);
        if dropped.is_some_and(|it| matches!(it.progress, Progress::Queued(_))) {
            requests.compact();
        }
    }

    /// Moves queued requests to `out` until it holds `full` bytes; calls `note` with each length.
    pub(super) fn drain(&self, out: &mut BytesMut, full: usize, mut note: impl FnMut(u32, usize)) {
        let mut requests = self.requests();
        while out.len() < full {
            let Some(opaque) = requests.queue.pop_front() else {
                return;
            };
            let Some(pending) = requests.pending.get_mut(&opaque) else {
                continue;
            };
            if let Progress::Queued(bytes) = &pending.progress {
                out.extend_from_slice(bytes);
                note(opaque, bytes.len());
                pending.progress = Progress::Taken;
            }
        }
    }

    /// Marks requests of which at least the first byte was sent.
    pub(super) fn mark_sent(&self, opaques: impl Iterator<Item = u32>) {
        let mut requests = self.requests();
        for opaque in opaques {
            if let Some(pending) = requests.pending.get_mut(&opaque) {
                pending.progress = Progress::Sent;
            }
        }
    }

    /// Delivers a response to its request. An error ends the connection.
    pub(super) fn answer(&self, frame: ReceivedFrame) -> Result<(), CloseReason> {
        // A connection that never had a bucket is of use without one.
        let status = frame.status();
        let no_bucket = !self.bucket && status == Status::NO_BUCKET;
        if !no_bucket && status.closes_connection(self.origin.error_map.as_deref()) {
            // Also if no caller waits. Before the delivery: a retry gets another connection.
            self.begin_close();
        }
        let opaque = frame.opaque;
        let asked = self
            .requests()
            .pending
            .get(&opaque)
            .filter(|pending| pending.is_sent())
            .map(|pending| pending.opcode);
        let Some(asked) = asked else {
            // The caller has dropped the request, or the request was not sent yet and the response
            // is invalid.
            self.ignored.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        if asked != frame.opcode {
            return Err(CloseReason::WrongOpcode {
                asked,
                answered: frame.opcode,
            });
        }
        let response =
            KvResponse::new(frame, self.origin.clone()).map_err(CloseReason::Protocol)?;
        if carries_config(&response) {
            self.config_arrived(response.value());
        }
        let pending = self.requests().pending.remove(&opaque);
        if let Some(pending) = pending {
            // Fails when the caller has just dropped the request.
            let _ = pending.done.send(Ok(response));
        }
        Ok(())
    }

    /// Stores a received configuration and calls the hook, unless it is the one that is stored: a
    /// node repeats it with every refused request. One that is too long for any parser is not kept.
    pub(super) fn config_arrived(&self, body: &[u8]) {
        if body.len() > cluster_config::MAX_BYTES {
            return;
        }
        let mut config = lock(&self.config);
        if config.as_deref() == Some(body) {
            return;
        }
        // A copy, which does not keep the read buffer of a long value in memory.
        *config = Some(Bytes::copy_from_slice(body));
        drop(config);
        if let Some(hook) = &self.on_config {
            hook(body, host_of(self.address()));
        }
    }

    pub(super) fn config(&self) -> Option<Bytes> {
        lock(&self.config).clone()
    }

    pub(super) fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    pub(super) fn outstanding(&self) -> usize {
        self.requests().pending.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        let requests = self.requests();
        requests
            .pending
            .values()
            .filter(|pending| pending.is_sent())
            .count()
    }

    pub(super) fn is_closed(&self) -> bool {
        let requests = self.requests();
        requests.closing || requests.closed.is_some()
    }

    /// Asks the driver to close the connection.
    pub(super) fn begin_close(&self) {
        self.requests().closing = true;
        self.wake.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.requests().closing
    }

    /// The socket is closed: every waiting request fails, with the stage that it reached.
    pub(super) fn close(&self, reason: CloseReason) {
        let mut requests = self.requests();
        requests.closed.get_or_insert_with(|| reason.clone());
        requests.queue.clear();
        let pending = std::mem::take(&mut requests.pending);
        drop(requests);
        for (_, pending) in pending {
            let address = self.address().clone();
            let reason = reason.clone();
            let error = if pending.is_sent() {
                ClientError::ClosedInFlight { address, reason }
            } else {
                ClientError::NotSent { address, reason }
            };
            // Fails when the caller has dropped the request.
            let _ = pending.done.send(Err(error));
        }
    }

    pub(super) fn not_sent(&self, reason: CloseReason) -> ClientError {
        ClientError::NotSent {
            address: self.address().clone(),
            reason,
        }
    }
}

/// An unreadable map is ignored (RFC 0013, Parsing the Error Map).
fn read(map: &[u8], address: &str) -> Option<ErrorMap> {
    match ErrorMap::parse(map) {
        Ok(map) => {
            if let [first, ..] = map.faults() {
                // One log line, whatever the number of faults.
                let faults = map.faults().len();
                tracing::info!(address, faults, %first, "parts of an error map are ignored");
            }
            Some(map)
        }
        Err(error) => {
            tracing::info!(address, %error, "an error map is refused");
            None
        }
    }
}

fn carries_config(response: &KvResponse) -> bool {
    let asked = response.opcode == Opcode::GET_CLUSTER_CONFIG && response.is_success();
    (asked || response.status == Status::NOT_MY_VBUCKET) && !response.value().is_empty()
}

/// The host of `host:port`, without the brackets of an IPv6 address.
pub(super) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
