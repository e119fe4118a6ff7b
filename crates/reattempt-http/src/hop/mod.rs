//! Across hops: what a request says of its attempt, and an answer of another, from one service to
//! the next.
//!
//! Services that call services, each with three tries, send 243 calls to the fifth for one at the
//! top when that fails. Only the hop next to the fault can mend it; the others should hear that it
//! has tried. So each says with every attempt which one it is and how long anybody waits for it,
//! and with an answer that it has given up:
//!
//! | header | of | says |
//! | --- | --- | --- |
//! | [`x-envoy-attempt-count`](ATTEMPT_COUNT) | request | the attempt's number, from 1 |
//! | [`x-reattempt-reason`](RETRY_REASON) | request | the reason of the failure that it is sent after; `HEDGE` of one that is sent ahead |
//! | [`x-envoy-expected-rq-timeout-ms`](EXPECTED_TIMEOUT) | request | milliseconds until nobody waits any more, from its arrival |
//! | [`amz-sdk-request`](AMZ_SDK_REQUEST) | request | `ttl=20260131T120000Z; attempt=2; max=3`: an instant, the number, the most attempts |
//! | [`x-reattempt-do-not-retry`](DO_NOT_RETRY) | answer | do not send this call again, and why |
//! | `grpc-retry-pushback-ms: -1` | answer | the same for gRPC, where the head is the whole answer |
//! | [`x-envoy-ratelimited`](ENVOY_RATELIMITED) | answer | the same for Envoy; only where [asked for](ServeHopLayer::for_envoy), because it also says that a rate limit was met |
//!
//! Three layers write and read them:
//!
//! - [`ServeHopLayer`], outermost in a **server**: puts a [`Hop`] into the request's extensions,
//!   refuses a request whose time is over, ends work that nobody waits for any more, and marks
//!   failures of a request whose own calls have given up.
//! - [`GaveUpLayer`], outermost in a **client**: tells the hop that is being served when a call of
//!   its has given up.
//! - [`AttemptHeadersLayer`], below a client's recovery layer: writes the headers of each attempt,
//!   and forbids another one where the answer says so.
//!
//! A service hands its hop to the calls that it makes with [`Hop::pass_on`], which also stamps the
//! time limit; a gateway that forwards the request itself has done so already. Nothing else ties
//! the two together, so a call that is made without it goes by its own rules.
//!
//! **Given up** means: stopped by the throttle, by the deadline or by the word of the service
//! behind it, or failed after at least one further attempt. A failure that was not sent again for
//! another reason (a status that is final, a request that is not idempotent, a route without
//! retries) is not marked: the next hop decides by its own policy. Nor is any answer below 400,
//! whatever became of the calls behind it.
//!
//! Headers are the word of whoever sent them. Those of a request only shorten its own work, but
//! they can end a handler midway ([`ServeHopLayer::finish_late_work`] lets it finish), and those of
//! an answer tell of what is behind: at the edge, where strangers come in, remove both.
//!
//! A server without the layer says nothing, and its clients go by their own policy and throttle, as
//! before: each hop can take it up alone. The marks bound a call to the attempts of one hop; that
//! all calls together stay near one attempt each while everything fails is the throttle's work. Of
//! 20 calls through five hops to a service that is down, it gets 4860 with neither, 60 with the
//! marks, 35 with throttles of ten tokens, and 23 with both.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use reattempt::strategy::Attempts;
//! use reattempt::RetryLayer;
//! use reattempt_http::HttpStatus;
//! use reattempt_http::hop::{self, AttemptHeadersLayer, GaveUpLayer, Hop, ServeHopLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Infallible> {
//! // A service that calls another, which is down.
//! let server = ServiceBuilder::new()
//!     .layer(ServeHopLayer::new())
//!     .service_fn(|request: Request<()>| async move {
//!         let client = ServiceBuilder::new()
//!             .layer(GaveUpLayer)
//!             .layer(RetryLayer::new(HttpStatus::new(), Attempts::standard()))
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
mod gave_up;
mod headers;
mod served;
mod serving;
#[cfg(test)]
mod tests;
mod utc;

pub use amz_sdk_request::AmzSdkRequest;
pub use attempt_headers::{AttemptHeaders, AttemptHeadersFuture, AttemptHeadersLayer};
pub use gave_up::{GaveUp, GaveUpFuture, GaveUpLayer, ToldGaveUp};
pub use headers::{
    AMZ_SDK_REQUEST, ATTEMPT_COUNT, DO_NOT_RETRY, ENVOY_RATELIMITED, EXPECTED_TIMEOUT,
    RETRY_REASON, attempt_count, do_not_retry, expected_timeout, retry_reason, set_attempt_count,
    set_do_not_retry, set_expected_timeout, set_retry_reason,
};
pub use served::Hop;
pub use serving::{ServeHop, ServeHopFuture, ServeHopLayer};
