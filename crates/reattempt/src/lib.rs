//! tower layers that make calls survive failures.
//!
//! Each layer does one thing, and all compose around any `tower::Service` with `ServiceBuilder`.
//! Outer layers attach what is known about the call, one recovery layer sends attempts and settles
//! each, inner layers report what one attempt observed:
//!
//! | from the outside in | what it does |
//! | --- | --- |
//! | [`CallLayer`] | wraps plain requests for such a stack |
//! | [`AdmissionLayer`] | refuses first attempts while their server is overloaded |
//! | [`RouteLayer`] | attaches the policy of this route or method |
//! | [`ThrottleLayer`] | attaches the server's token bucket |
//! | [`DeadlineLayer`] | attaches the timeout and enforces it |
//! | [`RetryLayer`] | sends again after a failure, with a reason |
//! | [`HedgeLayer`] | sends again before a failure |
//! | [`ConfigPollLayer`] | detects a stale configuration and fetches a newer one |
//! | [`AttemptDeadlineLayer`] | limits one attempt |
//! | [`PushbackLayer`] | reads the server's pushback |
//! | [`Backends`] | sends each attempt to a healthy backend with little load, of a list that may change |
//! | [`RoundRobin`] | the same over a fixed list, in turn and without health |
//! | [`CircuitBreakerLayer`] | refuses attempts while their backend fails |
//! | [`ClientErrorLayer`] | makes room for a passed deadline or a refusal in the service's error |
//! | [`UncallLayer`] | unwraps the requests again |
//!
//! Code without a service retries a function: [`retry`](retry()).
//!
//! Leave out what you do not need. With both recovery layers in one stack the route's policy
//! decides which of them acts. A layer in a position where it has no effect logs this once, at
//! WARN.
//!
//! | question | type |
//! | --- | --- |
//! | why did an attempt fail? | [`RetryReason`] |
//! | how far did it come? | [`Stage`] |
//! | what came of it? | [`Verdict`], from a [`Classify`] |
//! | may it take effect twice? | [`Idempotency`] |
//! | what does the server ask for? | [`ServerPushback`] |
//! | whether and when again? | [`RetryStrategy`], with a [`Backoff`](backoff::Backoff) |
//! | is the server overloaded? | [`RetryThrottle`] |
//! | until when? | [`CallDeadline`] |
//! | what happened? | [`RetryInfo`], of [`AttemptRecord`]s |
//!
//! Feature `tokio` (default) has the layers. Without it the crate has no runtime and no I/O: the
//! vocabulary, the policies and the [machines](machine) that make every decision, for simulators
//! and protocol crates. Feature `http` (default) carries the context in `http::Request`.
//! Feature `config` reads JSON configuration. Feature `record` writes what becomes of calls to a
//! file, which the policy lab replays. Feature `discover` lets [`Backends`] follow tower's service
//! discovery. Features `opentelemetry` and `metrics` are where metrics go. Feature `test-util` has
//! a scripted service for tests.
//!
//! - The inner service's response and error are returned unchanged. If no further attempt is made,
//!   the caller gets the server's own failure. The deadline returns its own error, as admission and
//!   circuit breakers do for calls that they refuse.
//! - Nothing is cloned unless the call could be sent again, no timer is armed unless something is
//!   pending, and a call that succeeds at once reads no clock but the deadline's.
//! - Every decision leaves an [`AttemptRecord`] with its reason: see [`RetryInfo::track`],
//!   [`Observer`], and the log (target `reattempt`, [`observe::LogObserver`]).
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
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
//!     Ok(0x01) => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response)), // not found
//!     Ok(_) => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response).server_failed(true)),
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

// The dependencies have substitutes for such targets, so that the errors of the imports come first.
#[cfg(not(target_has_atomic = "64"))]
compile_error!("reattempt needs a target with 64-bit atomics");

mod attempt;
// Without tokio no layer writes what this holds.
#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
pub mod call;
mod call_deadline;
mod classify;
#[cfg(feature = "config")]
pub mod config;
// Its effects on a call are the layers' own; simulators use the drivers alone.
#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
pub mod driver;
mod elapsed;
mod failure;
mod in_drop;
mod info;
pub mod machine;
pub mod observe;
pub mod policy;
mod read_pushback;
#[cfg(feature = "record")]
pub mod record;
mod stack_check;
mod sync;

#[cfg(feature = "tokio")]
pub mod admission;
#[cfg(feature = "tokio")]
pub mod backends;
#[cfg(feature = "tokio")]
pub mod circuit_breaker;
#[cfg(feature = "tokio")]
pub mod client_error;
#[cfg(feature = "tokio")]
mod clock;
#[cfg(feature = "tokio")]
pub mod config_poll;
#[cfg(feature = "tokio")]
pub mod deadline;
#[cfg(feature = "tokio")]
pub mod hedge;
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub mod not_a_service;
#[cfg(feature = "tokio")]
mod poll;
#[cfg(feature = "tokio")]
pub mod pushback;
#[cfg(feature = "tokio")]
mod recovery;
#[cfg(feature = "tokio")]
pub mod retry;
#[cfg(feature = "tokio")]
pub mod retry_fn;
#[cfg(feature = "tokio")]
pub mod route;
#[cfg(feature = "tokio")]
pub mod telemetry;
#[cfg(all(feature = "tokio", any(test, feature = "test-util")))]
pub mod test_util;
#[cfg(feature = "tokio")]
pub mod throttle;
#[cfg(feature = "tokio")]
pub mod timer;
#[cfg(feature = "tokio")]
pub mod wrap;

pub use attempt::{
    AttemptKind, AttemptOutcome, AttemptRecord, AttemptReport, Backend, Failure, StopReason,
    Transparent, Verdict,
};
pub use call::{
    AttemptReporter, Call, CallContext, CallHandle, CallSubject, ConfigWaiter, HasCallContext,
    MethodName, NextAttempt, Replay, RetryInfoHandle,
};
pub use call_deadline::{CallDeadline, OnDeadline};
pub use classify::{Classify, classify_fn};
pub use elapsed::{DeadlineScope, Elapsed};
pub use failure::{Idempotency, ReasonDef, RetryReason, ServerPushback, Stage, reason};
pub use info::{MOST_RECORDS, RetryInfo};
pub use observe::Observer;
pub use policy::{
    HedgeDelay, HedgePolicy, Recovery, Route, RoutePolicy, Routes, backoff, health,
    strategy::{self, Decision, RetryStrategy, RetryView, Surface},
    throttle::{Governor, HedgeBudget, RatioBudget, RetryThrottle, TokenBucket},
};
#[cfg(not(feature = "tokio"))]
pub use policy::{admission, throttle};

pub use read_pushback::{FoundPushback, ReadPushback, pushback_fn};
pub use stack_check::StackCheck;

#[cfg(feature = "tokio")]
pub use admission::AdmissionLayer;
#[cfg(feature = "tokio")]
pub use backends::{Backends, RoundRobin};
#[cfg(feature = "tokio")]
pub use circuit_breaker::CircuitBreakerLayer;
#[cfg(feature = "tokio")]
pub use client_error::{ClientError, ClientErrorLayer};
#[cfg(feature = "tokio")]
pub use config_poll::ConfigPollLayer;
#[cfg(feature = "tokio")]
pub use deadline::{AttemptDeadlineLayer, DeadlineLayer};
#[cfg(feature = "tokio")]
pub use hedge::HedgeLayer;
#[cfg(feature = "tokio")]
pub use pushback::PushbackLayer;
#[cfg(feature = "tokio")]
pub use retry::RetryLayer;
#[cfg(feature = "tokio")]
pub use retry_fn::{Attempt, RetryFn, retry};
#[cfg(feature = "tokio")]
pub use route::RouteLayer;
#[cfg(feature = "tokio")]
pub use throttle::ThrottleLayer;
#[cfg(feature = "tokio")]
pub use wrap::{CallLayer, UncallLayer};
