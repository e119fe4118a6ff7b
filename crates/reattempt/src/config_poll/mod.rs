//! `ConfigPollLayer`: detects a stale client configuration and requests a newer one (RFC 0024).
//!
//! Put it inside the recovery layer, around each node's own service. It reports at once and stores
//! a waiter: the recovery layer races it against its back-off, and a newer configuration that moved
//! the call's target sends the retry immediately.
//!
//! ```
//! use reattempt::config_poll::{ConfigPollLayer, StaleConfig};
//! use reattempt::{Call, ConfigWaiter};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! #[derive(Clone)]
//! struct AskOnMoved;
//!
//! impl StaleConfig<Call<u8>, &'static str, ()> for AskOnMoved {
//!     type Note = ();
//!     fn note(&self, _: &Call<u8>) {}
//!     fn check(
//!         &self,
//!         _: (),
//!         outcome: Result<&&'static str, &()>,
//!     ) -> Option<ConfigWaiter> {
//!         // A real one starts a fetch in a task of its own, for all calls, and waits for it.
//!         (outcome == Ok(&"moved")).then(|| Box::pin(async { true }) as ConfigWaiter)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ()> {
//! let service = ServiceBuilder::new()
//!     .layer(ConfigPollLayer::new(AskOnMoved))
//!     .service_fn(|_: Call<u8>| async { Ok("moved") });
//! assert_eq!(service.oneshot(Call::new(1)).await?, "moved");
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use crate::call::state::ConfigWaiter;
use crate::{Backend, CallContext, HasCallContext};
use tower_service::Service;

pub use future::ConfigPollFuture;
pub use layer::ConfigPollLayer;

/// Detects a stale configuration and fetches a newer one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot detect a stale configuration in `Result<&{Res}, &{Err}>`"
)]
pub trait StaleConfig<Req, Res, Err> {
    /// Data of the request that `check` needs (its key, its partition).
    type Note;

    /// Called with a request before it is sent.
    fn note(&self, request: &Req) -> Self::Note;

    /// Called before [`check`](Self::check) with the node of an attempt that ended with an error,
    /// if a layer below has [reported](crate::AttemptReporter::backend) it. The error may not name
    /// it: an attempt that was cut off has none of the transport. By default it is ignored.
    fn sent_to(&self, note: &mut Self::Note, backend: &Backend) {
        let _ = (note, backend);
    }

    /// Called with the outcome. If the configuration may be stale, returns what to wait for: a
    /// future that fetches a newer one, or waits for a fetch that was started here.
    ///
    /// The recovery layer drops the waiter when the back-off ends first, and with it a fetch that
    /// runs inside of it. Couchbase's `StaleKvConfig` therefore waits for a poller in a task of its
    /// own, which also makes one fetch for all calls that notice at once.
    ///
    /// Of a hedged call only a failure that is sent again whatever the policy says waits. After any
    /// other one the next attempt goes out at once, and the waiter is dropped without a poll.
    fn check(&self, note: Self::Note, outcome: Result<&Res, &Err>) -> Option<ConfigWaiter>;
}

/// `None` detects nothing.
#[diagnostic::do_not_recommend]
impl<P, Req, Res, Err> StaleConfig<Req, Res, Err> for Option<P>
where
    P: StaleConfig<Req, Res, Err>,
{
    type Note = Option<P::Note>;

    fn note(&self, request: &Req) -> Self::Note {
        self.as_ref().map(|poll| poll.note(request))
    }

    fn sent_to(&self, note: &mut Self::Note, backend: &Backend) {
        if let Some((poll, note)) = self.as_ref().zip(note.as_mut()) {
            poll.sent_to(note, backend);
        }
    }

    fn check(&self, note: Self::Note, outcome: Result<&Res, &Err>) -> Option<ConfigWaiter> {
        self.as_ref()?.check(note?, outcome)
    }
}

/// Requests a newer configuration when an outcome shows that it is needed. Made by
/// [`ConfigPollLayer`].
#[derive(Clone, Debug)]
pub struct ConfigPoll<S, P> {
    inner: S,
    poll: P,
    order: crate::StackCheck,
}

impl<S, P, Req> Service<Req> for ConfigPoll<S, P>
where
    S: Service<Req>,
    P: StaleConfig<Req, S::Response, S::Error> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ConfigPollFuture<S::Future, P, P::Note, Req>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    // 4 % of six layers.
    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("ConfigPollLayer", context);
        let reporter = context.map(CallContext::reporter).unwrap_or_default();
        let note = self.poll.note(&request);
        ConfigPollFuture::new(self.inner.call(request), self.poll.clone(), note, reporter)
    }
}
