//! A request that waits for the first map.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use reattempt_couchbase::KvTransportError as _;
use tokio::time::{Sleep, sleep};

use crate::kv::vbucket_of;

use super::error::ClientError;
use super::link::ConnectFuture;
use super::node::NodeClient;
use super::request::KvRequest;
use super::routes::{Route, Routes, no_node};

/// How long to wait for a seed before the next one is dialled as well, so that an unresponsive seed
/// does not delay the request.
const PATIENCE: Duration = Duration::from_millis(250);

/// How many times as long the last seeds may be silent when all others have failed. A seed that is
/// far away needs several round trips, a lost SYN is sent again after a second, and the client may
/// have no retries.
const LAST_PATIENCE: u32 = 8;

/// The default number of vbuckets of a bucket.
const VBUCKETS: usize = 1024;

/// A request that waits until a seed has provided a configuration with a vbucket map. When no seed
/// has one, the request goes to a seed that accepted the connection, and that node's response is
/// the result: once all others have failed, or have been silent for a while. When none accepted
/// one, it fails then with the error of a seed, so that it can be retried.
#[derive(Debug)]
pub(super) struct Seeding {
    routes: Arc<Routes>,
    request: KvRequest,
    dials: Vec<(NodeClient, ConnectFuture)>,
    patience: Pin<Box<Sleep>>,
    /// How often it has run out since the last seed was dialled.
    silences: u32,
    next: usize,
    left: usize,
    connected: Option<NodeClient>,
    /// A fatal error if there was one, otherwise the last one.
    failed: Option<ClientError>,
}

impl Seeding {
    /// Starts with the seed at this index.
    pub(super) fn begin(routes: &Arc<Routes>, first: usize, request: KvRequest) -> Self {
        let mut seeding = Self {
            routes: routes.clone(),
            request,
            dials: Vec::with_capacity(1),
            patience: Box::pin(sleep(PATIENCE)),
            silences: 0,
            next: first,
            left: routes.seeds.len(),
            connected: None,
            failed: None,
        };
        seeding.dial();
        seeding
    }

    pub(super) const fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Dials the next seed, if there is one.
    fn dial(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some(node) = self.routes.seed(self.next) else {
            return false;
        };
        self.left -= 1;
        self.next = self.next.wrapping_add(1);
        let connect = node.connect();
        self.dials.push((node, connect));
        true
    }

    /// The seed that is dialled; of several the one that has been silent the longest.
    pub(super) fn address(&self) -> Option<&Arc<str>> {
        self.dials.first().map(|(node, _)| node.named())
    }

    /// The node of the request, or why there is none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Route> {
        loop {
            let before = self.dials.len();
            let (connected, failed) = (&mut self.connected, &mut self.failed);
            self.dials
                .retain_mut(|(node, connect)| match Pin::new(connect).poll(cx) {
                    Poll::Pending => true,
                    Poll::Ready(dialled) => {
                        match dialled {
                            Ok(_) => *connected = Some(node.clone()),
                            Err(_) if failed.as_ref().is_some_and(ClientError::is_fatal) => {}
                            Err(error) => *failed = Some(error),
                        }
                        false
                    }
                });
            let impatient = self.patience.as_mut().poll(cx).is_ready();
            self.silences += u32::from(impatient);
            // Another connection, or a poll, may have brought the map.
            if impatient || self.dials.len() < before {
                if let Some(routed) = self.routes.route(&mut self.request) {
                    return Poll::Ready(routed);
                }
            }
            if (self.dials.is_empty() || impatient) && self.dial() {
                self.patience = Box::pin(sleep(PATIENCE));
                self.silences = 0;
            } else if self.dials.is_empty() || (impatient && self.has_result()) {
                return Poll::Ready(self.without_map());
            } else if impatient {
                self.patience = Box::pin(sleep(PATIENCE));
            } else {
                return Poll::Pending;
            }
        }
    }

    /// Whether there is a result while other seeds are silent.
    fn has_result(&self) -> bool {
        self.connected.is_some() || (self.failed.is_some() && self.silences >= LAST_PATIENCE)
    }

    fn without_map(&mut self) -> Route {
        let Some(node) = self.connected.take() else {
            let none = no_node(None, "there is no map and no seed");
            return Err(self.failed.take().unwrap_or(none));
        };
        if self.request.is_keyed() && self.request.vbucket.is_none() {
            self.request.vbucket = Some(vbucket_of(&self.request.key, VBUCKETS));
        }
        Ok(node.start(&self.request).into())
    }
}
