//! reqwest's client below any stack, and its request builder with retries.
//!
//! | start from | use |
//! | --- | --- |
//! | reqwest's own builder | [`send_with`](RequestBuilderExt::send_with), with the settings of an [`HttpClientLayer`](crate::HttpClientLayer) |
//! | a stack of layers | [`ReqwestService`], a `Service<http::Request<B>>` |
//!
//! Turn off the client's own retries (`.retry(reqwest::retry::never())`): otherwise attempts
//! multiply, and reqwest repeats a refused stream whatever
//! [`RefusedStream`](crate::RefusedStream) says.
//!
//! # Redirects
//!
//! **reqwest's default policy sends credentials to another origin**: 0.13.5 removes `Authorization`
//! and `Cookie` from the first request there, but sends them again with a further redirect inside
//! that origin, and other headers such as `x-api-key` at once. The client is the caller's, so this
//! crate cannot prevent it: build the client with [`same_origin_redirects`], a policy that returns
//! a redirect to another origin instead of following it.
//!
//! The client follows redirects inside of an attempt, by its own policy. A 307 or 308 repeats the
//! body, which reqwest can do only with a body that it holds in memory. So the body of an
//! idempotent request that is one piece in memory (bytes, a string, JSON, a form, `Full`) is handed
//! to reqwest as such, and any other as a stream: then a 307 or 308 is returned, as by reqwest
//! alone.
//!
//! reqwest does not say with an error whether it had followed a redirect: a POST that was carried
//! out and answered with 303 may end as a refused connection, of the GET that followed. So the body
//! of a request that is not idempotent is always a stream first. If it was never read, nothing was
//! sent, and a refused connection is retried by policy, for any method. If the server answers 307
//! or 308, within its origin, and the body was one piece, the request is sent once more, as one
//! piece, and reqwest follows: the redirecting server receives it twice, and has stated that it did
//! not carry it out. A 301 or 302 to any but a POST is returned, although reqwest alone follows it
//! and repeats the body. With a policy of your own that follows 303 but returns 307 and 308, use
//! [`ReqwestService::streaming`].
//!
//! A request without a body (`POST /jobs/7/start`) is written in one piece with its head. Before
//! that the transport asks for the body's length, and only once there is a connection: as long as
//! it has not asked, nothing was sent. After that an error of reqwest that says so may be about
//! a later hop, and the request is not repeated, unless it is marked as idempotent; nor is any that
//! is not idempotent after a failure status of a later hop. That is one that came from
//! another URL; with [`same_origin_redirects`] also one from the same, after a POST that was
//! carried out and answered with a redirect to its own URL. The record says
//! [`NotIdempotent`](reattempt::StopReason::NotIdempotent).
//!
//! The price of one piece: of an idempotent request that is dropped while it waits for an HTTP/2
//! stream it is unknown whether it was sent, so it is retried by policy instead of transparently.
//!
//! # Example
//!
//! ```no_run
//! use reattempt_http::HttpClientLayer;
//! use reattempt_http::reqwest::{RequestBuilderExt, same_origin_redirects};
//!
//! # async fn order() -> Result<(), Box<dyn std::error::Error>> {
//! let retries = HttpClientLayer::standard();
//! let client = reqwest::Client::builder()
//!     .retry(reqwest::retry::never())
//!     .redirect(same_origin_redirects())
//!     .build()?;
//! let answer = client.put("https://shop.example/cart").body("one loaf").send_with(&retries).await?;
//! assert_eq!(answer.text().await?, "thanks");
//! # Ok(()) }
//! ```

mod body;
mod redirects;
mod send_with;
mod service;
#[cfg(test)]
mod tests;
mod unrepeatable;
mod watched;

pub use redirects::same_origin_redirects;
pub use send_with::{RequestBuilderExt, SendWith, SendWithFuture};
pub use service::{ReqwestFuture, ReqwestService};
