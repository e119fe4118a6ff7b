//! `RoundRobin`: a fixed list of backends, used in turn.
//!
//! A further attempt of a call, retry or hedge, is sent to a backend that the call has not tried
//! yet, and once all were tried, to the least recently used.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use reattempt::backends::RoundRobin;
//! use reattempt::{
//!     Call, CallContext, HasCallContext, HedgeLayer, HedgePolicy, Idempotency, RetryInfo, Verdict,
//!     classify_fn,
//! };
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let any_answer = classify_fn(|_: Result<&&str, &Infallible>, _: &CallContext| Verdict::Success);
//! let replica = |name: &'static str, delay_ms| {
//!     let serve = service_fn(move |_: Call<()>| async move {
//!         tokio::time::sleep(Duration::from_millis(delay_ms)).await;
//!         Ok::<_, Infallible>(name)
//!     });
//!     (name, serve)
//! };
//! let service = ServiceBuilder::new()
//!     .layer(HedgeLayer::new(any_answer, HedgePolicy::new(2, Duration::from_millis(20))))
//!     .service(RoundRobin::new([replica("slow", 1000), replica("quick", 1)])?);
//!
//! let mut get = Call::new(());
//! get.context_mut().set_idempotency(Idempotency::Idempotent);
//! let watch = RetryInfo::track(&mut get);
//! assert_eq!(service.oneshot(get).await?, "quick");
//! let went: Vec<_> = watch.info().records().filter_map(|record| record.backend.clone()).collect();
//! assert_eq!(went.iter().map(|backend| backend.as_str()).collect::<Vec<_>>(), ["slow", "quick"]);
//! # Ok(()) }
//! ```

mod future;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::{Backend, CallContext, HasCallContext};
use tower_service::Service;

pub use future::RoundRobinFuture;

/// The list of backends was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list of backends is empty")]
pub struct NoBackends;

/// A list of services, one per backend, from which each attempt uses one. Clones share the list and
/// the position in it.
///
/// It is always ready: the attempt waits for the readiness of its backend, so that one backend that
/// is not ready or has failed delays neither calls nor hedges to others.
pub struct RoundRobin<S> {
    list: Arc<List<S>>,
}

struct List<S> {
    /// The lock is held only to clone a service, so that it need not be `Sync`.
    all: Box<[(Backend, Mutex<S>)]>,
    turn: AtomicUsize,
}

impl<S> RoundRobin<S> {
    /// Uses these services in turn, each with the name (for example an address) that records show.
    ///
    /// # Errors
    ///
    /// If the list is empty.
    pub fn new<N: Into<Arc<str>>>(
        backends: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self, NoBackends> {
        let named = |(name, service): (N, S)| (Backend::new(name), Mutex::new(service));
        let all: Box<[_]> = backends.into_iter().map(named).collect();
        if all.is_empty() {
            return Err(NoBackends);
        }
        let turn = AtomicUsize::new(0);
        Ok(Self {
            list: Arc::new(List { all, turn }),
        })
    }
}

impl<S> List<S> {
    /// The index of the backend for an attempt of this call, and whether there is another that the
    /// call has not tried.
    fn pick(&self, context: Option<&CallContext>) -> (usize, bool) {
        let len = self.all.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % len;
        // Not derived from the attempt number: an attempt that waits for a connection is sent
        // several times.
        let tried = context.map_or_else(Vec::new, CallContext::backends_tried);
        let place = |name: &Backend| self.all.iter().position(|(backend, _)| backend == name);
        let mut untried = (0..len)
            .map(|step| (turn + step) % len)
            .filter(|at| !tried.contains(&self.all[*at].0));
        if let Some(at) = untried.next() {
            return (at, untried.next().is_some());
        }
        (tried.iter().find_map(place).unwrap_or(turn), false)
    }
}

impl<S, Req> Service<Req> for RoundRobin<S>
where
    S: Service<Req> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RoundRobinFuture<S, Req>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let (at, untried) = self.list.pick(request.context());
        let (backend, service) = &self.list.all[at];
        if let Some(context) = request.context() {
            context.sent_to(backend, untried);
        }
        let service = service.lock().unwrap_or_else(PoisonError::into_inner);
        RoundRobinFuture::new(service.clone(), request)
    }
}

impl<S> Clone for RoundRobin<S> {
    fn clone(&self) -> Self {
        Self {
            list: Arc::clone(&self.list),
        }
    }
}

impl<S> fmt::Debug for RoundRobin<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.list.all.iter().map(|(backend, _)| backend))
            .finish()
    }
}
