//! `Backends`: sends each attempt of a call to a healthy backend with little load.
//!
//! A service over a list of services, one per backend, which may change (feature `discover`: by
//! tower's `Discover`). Put it innermost, in place of a single transport. A backend that fails is
//! ejected for a time. Of two healthy ones drawn at random, the less loaded is used; a further
//! attempt of a call, retry or hedge, is sent to a backend that the call has not tried (A6, Hedging
//! Policy: distinct backends). The record of each attempt shows its backend. If no connection could
//! be made, the attempt moves to another untried backend without counting, if the classifier allows
//! it ([`Transparent::NextBackend`]).
//!
//! ```
//! use reattempt::backends::Backends;
//! use reattempt::health::HealthPolicy;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{
//!     Call, CallContext, Failure, RetryLayer, Stage, Verdict, classify_fn, reason,
//! };
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! const DOWN: Failure = Failure::new(reason::SOCKET_NOT_AVAILABLE, Stage::Dispatch);
//! let classifier = classify_fn(|outcome: Result<&u32, &u32>, _: &CallContext| match outcome {
//!     Ok(_) => Verdict::Success,
//!     Err(_) => Verdict::Retry(DOWN),
//! });
//! let replica = |number: u32| {
//!     let serve = move |_: Call<()>| async move {
//!         if number == 0 { Err(number) } else { Ok(number) }
//!     };
//!     (format!("replica {number}"), service_fn(serve))
//! };
//! let backends = Backends::new((0..3).map(replica), HealthPolicy::standard(), classifier.clone());
//! let mut service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(classifier, MaxAttempts::standard()))
//!     .service(backends.clone());
//! for _ in 0..100 {
//!     assert!(service.ready().await.unwrap().call(Call::new(())).await.is_ok());
//! }
//! let (name, status) = &backends.status()[0];
//! assert_eq!((name.as_str(), status.is_ejected()), ("replica 0", true));
//! # }
//! ```
//!
//! [`RoundRobin`] uses a fixed list in turn. It needs no classifier and knows no health: a backend
//! that is down is asked by every n-th call.
//!
//! Another balancer, such as `tower::balance`, can take its place too: wrap each backend's service
//! in a [`BackendLayer`], so that records show the backends, and use
//! [`CallContext::backends_tried`] as the hint that A6 describes.

mod balanced;
mod layer;
mod round_robin;

#[cfg(doc)]
use crate::{CallContext, Transparent};

pub use balanced::{Backends, BackendsFuture, NoPushback};
pub use layer::{AtBackend, BackendLayer};
pub use round_robin::{NoBackends, RoundRobin, RoundRobinFuture};
