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
//! The client follows them inside of an attempt, by its own policy. A 307 or 308 repeats the body,
//! which reqwest can do only with a body that it holds in memory. So a body that is one piece in
//! memory (bytes, a string, JSON, a form, `Full`) is handed to reqwest as such, and any other as a
//! stream: then a 307 or 308 is returned, as by reqwest alone.
//!
//! The price: of a body handed over in one piece it is unknown whether the client has begun to send
//! it. A POST that was dropped while it waited for an HTTP/2 stream counts as in flight, and is not
//! repeated, where one with a stream is known as never sent. [`ReqwestService::streaming`] chooses
//! the other way round.
//!
//! reqwest does not say with an error whether it had followed a redirect: a POST that was carried
//! out and answered with 303 may end as a refused connection, of the GET that followed. So a
//! request that is not idempotent is not repeated after an error of which reqwest alone says that
//! nothing was sent, unless its body is a stream that was never polled; nor after a failure status
//! that came from another URL.
//!
//! reqwest 0.13.5 removes `Authorization` and `Cookie` from a redirect to another origin, but sends
//! them again with a further redirect inside that origin. [`same_origin_redirects`] is a policy
//! that returns a redirect to another origin instead of following it.
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
mod redirected;
mod redirects;
mod send_with;
mod service;
#[cfg(test)]
mod tests;

pub use redirects::same_origin_redirects;
pub use send_with::{RequestBuilderExt, SendWith, SendWithFuture};
pub use service::{ReqwestFuture, ReqwestService};
