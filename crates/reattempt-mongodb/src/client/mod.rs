//! `MongoClientLayer`: Retryable Reads around a client in one line.
//!
//! It is an ordinary layer: the gate, the strategy and the classifier in the documented stack, with
//! a default for each, and nothing is possible only through it. Put it around calls of the official
//! driver with its own retries disabled (feature `mongodb`), or around a client of your own.
//!
//! ```
//! use reattempt::{Call, ClientError};
//! use reattempt_mongodb::{FailureKind, MongoClientLayer, MongoFailure, ReadCall, ReadOperation};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! #[derive(Clone)]
//! struct Find;
//! impl ReadCall for Find {
//!     fn operation(&self) -> ReadOperation { ReadOperation::Find }
//! }
//!
//! #[derive(Debug)]
//! struct DriverError { code: i64 }
//! impl MongoFailure for DriverError {
//!     fn kind(&self) -> FailureKind { FailureKind::command(Some(self.code)) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), ClientError<DriverError>> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! # let find = |_: Call<Find>| async {
//! #     let stepping_down = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
//! #     if stepping_down { Err(DriverError { code: 189 }) } else { Ok(["rye", "wheat"]) }
//! # };
//! let reads = ServiceBuilder::new().layer(MongoClientLayer::new()).service_fn(find);
//!
//! assert_eq!(reads.oneshot(Call::new(Find)).await?, ["rye", "wheat"]); // the second attempt
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use reattempt::client_error::WithClientError;
use reattempt::deadline::Deadline;
use reattempt::hedge::HedgeUnclaimed;
use reattempt::retry::Retry;
use reattempt::throttle::Throttle;
use reattempt::{ClientError, HasCallContext, Replay};
use tower_service::Service;

use crate::{ErrorLabels, FailureKind, MongoClassifier, MongoFailure, ReadCall, RetryReads};
pub use layer::MongoClientLayer;

/// The single layers of a client, from the outside in.
type Stack<S> = Throttle<Deadline<Recovery<PerAttempt<S>>>>;
type Recovery<S> = Retry<HedgeUnclaimed<S, MongoClassifier>, MongoClassifier>;
type PerAttempt<S> = Deadline<WithClientError<S>>;

/// A MongoDB client that retries. Made by [`MongoClientLayer`].
///
/// Its error is a [`ClientError`] with the transport's own.
#[derive(Clone)]
pub struct MongoClient<S> {
    gate: Arc<RetryReads>,
    stack: Stack<S>,
}

impl<S> fmt::Debug for MongoClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoClient")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl<S, Req> Service<Req> for MongoClient<S>
where
    S: Service<Req> + Clone,
    S::Error: MongoFailure,
    Req: ReadCall + HasCallContext + Replay,
{
    type Response = S::Response;
    type Error = ClientError<S::Error>;
    type Future = <Stack<S> as Service<Req>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.stack.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let (operation, in_transaction) = (request.operation(), request.in_transaction());
        self.gate
            .attach(request.context_mut(), operation, in_transaction);
        self.stack.call(request)
    }
}

/// Lets the classifier read the client's error below a deadline. An attempt that ended at its own
/// limit is a network timeout.
impl<E: MongoFailure> MongoFailure for ClientError<E> {
    fn kind(&self) -> FailureKind {
        self.transport()
            .map_or(FailureKind::network_in_flight(), E::kind)
    }

    fn labels(&self) -> ErrorLabels {
        self.transport().map_or(ErrorLabels::NONE, E::labels)
    }

    fn base_backoff(&self) -> Option<Duration> {
        self.transport().and_then(E::base_backoff)
    }
}
