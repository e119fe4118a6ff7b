//! tower layers that make calls survive failures.
//!
//! Each layer does one thing, and all compose around any `tower::Service` with `ServiceBuilder`.
//! Outer layers attach what is known about the call, one recovery layer sends attempts and settles
//! each, inner layers report what one attempt observed:
//!
//! | from the outside in | what it does |
//! | --- | --- |
//! | [`RouteLayer`] | attaches the policy of this route or method |
//! | [`DeadlineLayer`] | attaches the time limit and enforces it |
//! | [`ThrottleLayer`] | attaches the server's token bucket |
//! | [`RetryLayer`] | sends again after a failure, with a reason |
//! | [`HedgeLayer`] | sends again before a failure |
//! | [`PushbackLayer`] | reads the server's pushback |
//! | [`ConfigPollLayer`] | detects a stale configuration and fetches a newer one |
//! | [`Backends`] | innermost: sends each attempt of a call to another backend |
//! | [`CallLayer`], [`UncallLayer`] | wrap plain requests for such a stack, and unwrap them again |
//!
//! Leave out what you do not need. With both recovery layers in one stack the route's policy
//! decides which of them acts. A layer in a position where it has no effect logs this once, at
//! WARN.
//!
//! The vocabulary (reasons, verdicts, strategies, policies, records) and the decision machines are
//! in [`reattempt_core`] and are re-exported here: most users depend on this crate and one protocol
//! crate.
//!
//! - The inner service's response and error are returned unchanged. If no further attempt is made,
//!   the caller gets the server's own failure; only the deadline returns its own error.
//! - Nothing is cloned unless the call could be sent again, no timer is armed unless something is
//!   pending, and a call that succeeds at once reads no clock but the deadline's.
//! - Every decision leaves an [`AttemptRecord`] with its reason: see [`CallContext::watch`],
//!   [`Observer`], and the log (target `reattempt`, [`observe::LogObserver`]).
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use reattempt::{
//!     Call, CallContext, DeadlineLayer, Failure, RetryLayer, Stage, ThrottleLayer, TokenBucket,
//!     Verdict, classify_fn, reason, strategy::BestEffort,
//! };
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! const BUSY: Failure = Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response).code(0x86);
//! const LOST: Failure = Failure::new(reason::SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight);
//! let classifier = classify_fn(|outcome: Result<&u16, &BoxError>, _: &CallContext| match outcome {
//!     Ok(0x00) => Verdict::Success,
//!     Ok(0x86) => Verdict::Retry(BUSY),
//!     Ok(_) => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response)),
//!     Err(_) => Verdict::Retry(LOST),
//! });
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::new(Duration::from_millis(2500)))
//!     .layer(ThrottleLayer::new(Arc::new(TokenBucket::new(10, 100)?)))
//!     .layer(RetryLayer::new(classifier, BestEffort::new()))
//!     .service_fn(|_: Call<&'static str>| async { Ok(0x86) }); // always busy
//!
//! let error = service.oneshot(Call::new("get")).await;
//! // After five failures the bucket refuses retries: the server's own response is returned.
//! assert_eq!(error?, 0x86);
//! # Ok(()) }
//! ```

pub mod backends;
pub mod call;
mod checked;
mod clock;
pub mod config_poll;
pub mod deadline;
pub mod hedge;
pub mod observe;
#[doc(hidden)]
pub mod order;
mod poll;
#[cfg(test)]
pub mod probe;
pub mod pushback;
pub mod retry;
pub mod route;
pub mod throttle;

pub use reattempt_core::*;

pub use backends::Backends;
pub use call::{CallLayer, UncallLayer};
pub use checked::checked;
pub use config_poll::ConfigPollLayer;
pub use deadline::DeadlineLayer;
pub use hedge::HedgeLayer;
pub use pushback::PushbackLayer;
pub use retry::RetryLayer;
pub use route::RouteLayer;
pub use throttle::ThrottleLayer;
