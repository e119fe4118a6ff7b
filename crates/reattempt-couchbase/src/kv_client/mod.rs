//! `KvClientLayer`: retries for a key-value client in one line.
//!
//! It is an ordinary layer: the single layers in the documented order, with a default for each, and
//! nothing is possible only through it. Put it around a client that routes each request by the
//! newest configuration, so that an attempt goes to the node that has its key by then.
//!
//! ```
//! use reattempt::{Call, ClientError, Stage};
//! use reattempt_couchbase::cluster_config::{ConfigPollerOptions, FetchError};
//! use reattempt_couchbase::KvClientLayer;
//! use reattempt_couchbase::kv::{KvAnswer, KvRequest, KvTransportError, Opcode};
//! use reattempt_couchbase::{Address, ClusterConfig, ConfigPoller, ConfigStore, Revision};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! #[derive(Clone)]
//! struct Get(&'static str);
//! impl KvRequest for Get {
//!     fn opcode(&self) -> u8 { Opcode::GET.0 }
//!     fn key(&self) -> Option<&[u8]> { Some(self.0.as_bytes()) }
//! }
//!
//! #[derive(Debug)]
//! struct Answer { status: u16 }
//! impl KvAnswer for Answer {
//!     fn status(&self) -> u16 { self.status }
//!     fn opcode(&self) -> u8 { Opcode::GET.0 }
//! }
//!
//! #[derive(Debug)]
//! enum Lost { InFlight }
//! impl KvTransportError for Lost {
//!     fn stage(&self) -> Stage { Stage::InFlight }
//! }
//!
//! # async fn fetch(
//! #     _: Address,
//! #     _: Option<Revision>,
//! # ) -> Result<Option<ClusterConfig>, FetchError> { Ok(None) }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), ClientError<Lost>> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! # let client = tower::service_fn(|_: Call<Get>| async {
//! #     match CALLS.fetch_add(1, Ordering::Relaxed) {
//! #         0 => Err(Lost::InFlight),
//! #         1 => Ok(Answer { status: 0x86 }),
//! #         _ => Ok(Answer { status: 0 }),
//! #     }
//! # });
//! // The client routes by this store; `fetch` asks a node for its configuration.
//! let store = ConfigStore::new();
//! let poller = ConfigPoller::spawn(store.clone(), fetch, ConfigPollerOptions::new());
//! let kv = ServiceBuilder::new().layer(KvClientLayer::new(poller)).service(client);
//!
//! // After a lost response and a temporary failure.
//! assert_eq!(kv.oneshot(Call::new(Get("user::7"))).await?.status, 0);
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;
mod timeouts;

use std::fmt;
use std::task::{Context, Poll};

use reattempt::client_error::WithClientError;
use reattempt::config_poll::ConfigPoll;
use reattempt::deadline::Deadline;
use reattempt::hedge::HedgeUnclaimed;
use reattempt::pushback::Pushback;
use reattempt::reason::SOCKET_CLOSED_WHILE_IN_FLIGHT;
use reattempt::retry::Retry;
use reattempt::throttle::Throttle;
use reattempt::{ClientError, HasCallContext, Replay, RetryReason, Stage};
use tower_service::Service;

use crate::kv::{
    KvAnswer, KvClassifier, KvPushback, KvRequest, KvTransportError, attach_idempotency,
};
use crate::{Address, StaleKvConfig};
pub use layer::{KV_DURABLE_TIMEOUT, KV_TIMEOUT, KvClientLayer};
use timeouts::Timeouts;

/// The single layers of a client, from the outside in; in it the deadline depends on the request.
type Stack<S> = Throttle<Deadline<Recovery<PerAttempt<S>>>>;
type Recovery<S> = Retry<HedgeUnclaimed<S, KvClassifier>, KvClassifier>;
/// The attempt's own limit is below the config poll, for which it is a sign like a lost connection.
type PerAttempt<S> = ConfigPoll<Deadline<Answered<S>>, Option<StaleKvConfig>>;
type Answered<S> = Pushback<WithClientError<S>, KvPushback>;

/// A key-value client that retries. Made by [`KvClientLayer`].
///
/// Its error is a [`ClientError`] with the transport's own.
#[derive(Clone)]
pub struct KvClient<S> {
    stack: Throttle<Timeouts<Recovery<PerAttempt<S>>>>,
}

impl<S> fmt::Debug for KvClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvClient").finish_non_exhaustive()
    }
}

impl<S, Req> Service<Req> for KvClient<S>
where
    S: Service<Req> + Clone,
    S::Response: KvAnswer,
    S::Error: KvTransportError,
    Req: KvRequest + HasCallContext + Replay,
{
    type Response = S::Response;
    type Error = ClientError<S::Error>;
    type Future = <Stack<S> as Service<Req>>::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.stack.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        attach_idempotency(&mut request);
        self.stack.call(request)
    }
}

/// Lets the classifier and the config poll read the transport's error below a deadline. An attempt
/// that ended at its own limit is one whose response was lost.
impl<E: KvTransportError> KvTransportError for ClientError<E> {
    fn stage(&self) -> Stage {
        self.transport().map_or(Stage::InFlight, E::stage)
    }

    fn reason(&self) -> RetryReason {
        self.transport()
            .map_or(SOCKET_CLOSED_WHILE_IN_FLIGHT, E::reason)
    }

    fn is_fatal(&self) -> bool {
        self.transport().is_some_and(E::is_fatal)
    }

    fn node(&self) -> Option<Address> {
        self.transport().and_then(E::node)
    }
}
