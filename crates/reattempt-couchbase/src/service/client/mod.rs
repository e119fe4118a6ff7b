//! `ServiceClientLayer`: retries for a client of one of the HTTP services in one line.
//!
//! Works around hyper-util's client and any other `Service<http::Request<B>>` whose errors
//! reattempt-http reads (features `hyper`, `hyper-util`, `h2`, `reqwest` of this crate). It is an
//! ordinary layer: the single layers in the documented order, with a default for each, and nothing
//! is possible only through it.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use reattempt_couchbase::service::{ReadOnly, ServiceClientLayer};
//! use reattempt_http::body::ReplayBody;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! # let hyper_client = tower::service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//! #     let body = match CALLS.fetch_add(1, Ordering::Relaxed) {
//! #         0 => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
//! #         1 => r#"{"results": [], "errors": [{"code": 4050, "msg": "prepare it again"}]}"#,
//! #         _ => r#"{"results": [{"n": 1}]}"#,
//! #     };
//! #     Ok(Response::new(Full::<Bytes>::from(body)))
//! # });
//! let client = ServiceBuilder::new().layer(ServiceClientLayer::query()).service(hyper_client);
//!
//! let request = Request::post("http://node:8093/query/service")
//!     .extension(ReadOnly) // otherwise it is not sent again after a lost response
//!     .body(Full::<Bytes>::from(r#"{"prepared": "p", "readonly": true}"#))?;
//! let response = client.oneshot(request).await?; // after a lost response, and one with an error
//! assert_eq!(response.into_body().collect().await?.to_bytes(), r#"{"results": [{"n": 1}]}"#);
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use reattempt::ClientError;
use reattempt::client_error::WithClientError;
use reattempt::deadline::Deadline;
use reattempt::hedge::HedgeUnclaimed;
use reattempt::retry::Retry;
use reattempt::throttle::Throttle;
use reattempt_http::body::{DeadlineBody, DeadlineBodyService, ReplayBody, ReplayBodyService};
use reattempt_http::{HttpClassifier, TransportError};
use tower_service::Service;

use super::{ServiceBody, ServiceClassifier, ServiceErrorService, ServiceIdempotency};
pub use layer::{SERVICE_TIMEOUT, ServiceClientLayer};

/// The single layers of a client, from the outside in.
type Stack<S> = ServiceIdempotency<Throttle<Deadline<DeadlineBodyService<PerCall<S>>>>>;
type PerCall<S> = ReplayBodyService<Recovery<PerAttempt<S>>>;
type Recovery<S> = Retry<HedgeUnclaimed<S, Classifier>, Classifier>;
type Classifier = ServiceClassifier<HttpClassifier>;
type PerAttempt<S> = Deadline<ServiceErrorService<WithClientError<S>>>;

/// A client of an HTTP service that retries. Made by [`ServiceClientLayer`].
///
/// The end of its response body is bounded by the call's deadline. Its error is a [`ClientError`]
/// with the transport's own.
#[derive(Clone)]
pub struct ServiceClient<S> {
    stack: Stack<S>,
}

impl<S> fmt::Debug for ServiceClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceClient").finish_non_exhaustive()
    }
}

impl<S, B, A> Service<Request<B>> for ServiceClient<S>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<A>> + Clone,
    S::Error: TransportError,
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    A: Body<Data = Bytes> + Unpin,
{
    type Response = Response<DeadlineBody<ServiceBody<A>>>;
    type Error = ClientError<S::Error>;
    type Future = <Stack<S> as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.stack.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.stack.call(request)
    }
}
