//! Retries across hops: what a request reports about its attempt, and whether a response forbids
//! another one.
//!
//! In a chain of five services that make three attempts each, a failure of the last one causes 243
//! calls to it for one call at the top. Only the hop next to the failure can fix it by a retry; the
//! others need to know that it has tried. So each service reports with every attempt its number and
//! the time that the caller waits, and with a response whether it has given up:
//!
//! | header | of | meaning |
//! | --- | --- | --- |
//! | [`x-envoy-attempt-count`](ATTEMPT_COUNT) | request | the attempt's number, from 1 |
//! | [`x-reattempt-reason`](RETRY_REASON) | request | the reason of the failure that caused it; `HEDGE` for one sent before any failure |
//! | [`x-envoy-expected-rq-timeout-ms`](EXPECTED_TIMEOUT) | request | how many milliseconds the caller waits, from the request's arrival |
//! | [`amz-sdk-request`](AMZ_SDK_REQUEST) | request | `ttl=20260131T120000Z; attempt=2; max=3`: an instant, the number, the maximum of attempts |
//! | [`x-reattempt-do-not-retry`](DO_NOT_RETRY) | response | do not retry this call, and why |
//! | `grpc-retry-pushback-ms: -1` | response | the same for gRPC, if the head is the whole response |
//! | [`x-envoy-ratelimited`](ENVOY_RATELIMITED) | response | the same for Envoy; only by [option](ServerHopLayer::for_envoy), because it also indicates a rate limit |
//!
//! Three layers read and write them:
//!
//! - [`ServerHopLayer`], outermost in a **server**: puts a [`Hop`] into the request's extensions,
//!   refuses a request whose deadline has passed, stops work that the caller no longer waits for,
//!   and marks failures of a request whose own calls have given up.
//! - [`GaveUpLayer`], outermost in a **client**: reports to the hop being served that a call made
//!   for it has given up.
//! - [`AttemptHeadersLayer`], below a client's recovery layer: sets the headers of each attempt,
//!   and forbids another one if the response says so.
//!
//! A service connects its hop with the calls that it makes by [`Hop::pass_on`] (with tonic by
//! [`Hop::pass_on_in`]), which also passes the deadline on, if one of the headers above has it
//! (`grpc-timeout` is not read); a gateway that forwards the request itself needs no call. A call
//! made without it follows its own rules.
//!
//! **Given up** means: stopped by the throttle, by an `AdmissionLayer` or by the response of the
//! next service, or failed, or was out of time, after at least one retry. A failure that was not
//! retried for another reason (a final status, a request that is not idempotent, a route without
//! retries, a slow server) is not marked: the hop before decides by its own policy. A response
//! below 400 is never marked.
//!
//! Headers are only as trustworthy as their sender. Those of a request only shorten its own work,
//! but they can end a handler midway ([`ServerHopLayer::finish_late_work`] lets it finish), and
//! those of a response reveal what is behind the service: remove both at the edge.
//!
//! A server without the layer sets no headers, and its clients follow their own policy and
//! throttle: each hop can adopt the layers independently. The marks limit a call to the attempts of
//! one hop; the throttle keeps all calls together near one attempt each while everything fails. Of
//! 20 calls through five hops to a service that is down, that service receives 4860 with neither,
//! 60 with the marks, 35 with throttles of ten tokens, and 23 with both.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::RetryLayer;
//! use reattempt_http::HttpClassifier;
//! use reattempt_http::hop::{self, AttemptHeadersLayer, GaveUpLayer, Hop, ServerHopLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Infallible> {
//! // A service that calls another one, which is down.
//! let server = ServiceBuilder::new()
//!     .layer(ServerHopLayer::new())
//!     .service_fn(|request: Request<()>| async move {
//!         let client = ServiceBuilder::new()
//!             .layer(GaveUpLayer)
//!             .layer(RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard()))
//!             .layer(AttemptHeadersLayer::new())
//!             .service_fn(|attempt: Request<()>| async move {
//!                 assert!((1..=3).contains(&hop::attempt_count(attempt.headers()).unwrap()));
//!                 Ok::<_, Infallible>(Response::builder().status(503).body(()).unwrap())
//!             });
//!         let mut call = Request::get("http://behind/").body(()).unwrap();
//!         Hop::of(&request).unwrap().pass_on(&mut call);
//!         let answer = client.oneshot(call).await?;
//!         Ok::<_, Infallible>(Response::builder().status(answer.status()).body(()).unwrap())
//!     });
//! let answer = server.oneshot(Request::new(())).await?;
//! assert_eq!(answer.status(), 503);
//! assert_eq!(hop::do_not_retry(answer.headers()), Some("attempts"), "three are enough");
//! # Ok(()) }
//! ```

mod amz_sdk_request;
mod attempt_headers;
mod clock_skew;
mod gave_up;
mod headers;
mod served;
mod serving;
#[cfg(test)]
mod tests;
mod utc;

pub use amz_sdk_request::AmzSdkRequest;
pub use attempt_headers::{AttemptHeaders, AttemptHeadersFuture, AttemptHeadersLayer};
pub use gave_up::{GaveUp, GaveUpFuture, GaveUpLayer, GaveUpService};
pub use headers::{
    AMZ_SDK_REQUEST, ATTEMPT_COUNT, DO_NOT_RETRY, ENVOY_RATELIMITED, EXPECTED_TIMEOUT,
    RETRY_REASON, attempt_count, do_not_retry, expected_timeout, retry_reason, set_attempt_count,
    set_do_not_retry, set_expected_timeout, set_retry_reason,
};
pub use served::Hop;
pub use serving::{ServeHopFuture, ServerHop, ServerHopLayer};
