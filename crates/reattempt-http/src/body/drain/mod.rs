//! `DrainBodyLayer`: reads the rest of an unwanted response, so that its HTTP/1 connection can be
//! reused.
//!
//! An HTTP/1 connection carries one response after another: if a body is dropped before its end,
//! the connection has to be closed, and each failed attempt would cost a new one. Put the layer
//! directly above the transport. A dropped body is read to its end by a task of its own, within
//! [limits](DrainBodyLayer) of size, time and number. No call waits for it: a recovery layer sends
//! the next attempt concurrently. HTTP/2 resets a single stream, so its bodies are dropped unread;
//! so are those of successful responses (below 300), whose readers stopped on purpose. It changes
//! the response type: `Response<B>` becomes `Response<DrainBody<B>>`.
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_http::HttpClassifier;
//! use reattempt_http::body::DrainBodyLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let client = ServiceBuilder::new()
//!     .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
//!     .layer(DrainBodyLayer::new().bytes(4096))
//!     .service_fn(|_: Request<()>| async {
//!         // your HTTP client
//!         Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from("hello")))
//!     });
//! assert_eq!(client.oneshot(Request::new(())).await?.status(), 200);
//! # Ok(()) }
//! ```

mod rest;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use rest::Bounds;

/// Reads the rest of dropped bodies.
///
/// | limit | default |
/// | --- | --- |
/// | [`bytes`](Self::bytes) of one body; one that announces more is not read | 64 KiB |
/// | [`within`](Self::within): time for one body | 1 s |
/// | [`at_once`](Self::at_once): bodies of one layer; others are dropped unread | 64 |
#[derive(Clone, Debug)]
pub struct DrainBodyLayer {
    bounds: Bounds,
}

impl DrainBodyLayer {
    /// With the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bounds: Bounds::default(),
        }
    }

    /// Reads at most this many bytes of one body.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// Reads one body for at most this time.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.bounds.time = time;
        self
    }

    /// Reads at most this many bodies concurrently, over all clones of this layer and its services.
    #[must_use]
    pub fn at_once(mut self, bodies: usize) -> Self {
        self.bounds.at_once = bodies;
        self
    }
}

impl Default for DrainBodyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for DrainBodyLayer {
    type Service = DrainBodyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DrainBodyService {
            inner,
            bounds: self.bounds.clone(),
        }
    }
}

/// Created by [`DrainBodyLayer`].
#[derive(Clone, Debug)]
pub struct DrainBodyService<S> {
    inner: S,
    bounds: Bounds,
}

impl<S, Req, B> Service<Req> for DrainBodyService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body + Send + Unpin + 'static,
{
    type Response = Response<DrainBody<B>>;
    type Error = S::Error;
    type Future = DrainBodyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        DrainBodyFuture {
            inner: self.inner.call(request),
            bounds: self.bounds.clone(),
        }
    }
}

pin_project! {
    /// The future of [`DrainBodyService`].
    #[derive(Debug)]
    pub struct DrainBodyFuture<F> {
        #[pin]
        inner: F,
        bounds: Bounds,
    }
}

impl<F, B, E> Future for DrainBodyFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body + Send + Unpin + 'static,
{
    type Output = Result<Response<DrainBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        Poll::Ready(outcome.map(|response| {
            let unwanted = response.status().as_u16() >= 300;
            let drained = unwanted && response.version() <= Version::HTTP_11;
            response.map(|inner| DrainBody {
                inner: Some(inner),
                rest: drained.then(|| (rest::read as fn(B, Bounds), this.bounds.clone())),
            })
        }))
    }
}

/// The function that reads the rest of a body, and its limits.
type Rest<B> = (fn(B, Bounds), Bounds);

/// A response body whose rest is read when it is dropped.
pub struct DrainBody<B> {
    /// `None` once it has ended.
    inner: Option<B>,
    /// Set if the rest is to be read.
    rest: Option<Rest<B>>,
}

impl<B> Drop for DrainBody<B> {
    fn drop(&mut self) {
        if let (Some(inner), Some((read, bounds))) = (self.inner.take(), self.rest.take()) {
            read(inner, bounds);
        }
    }
}

impl<B> Default for DrainBody<B> {
    fn default() -> Self {
        Self {
            inner: None,
            rest: None,
        }
    }
}

impl<B> fmt::Debug for DrainBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainBody")
            .field("ended", &self.inner.is_none())
            .finish_non_exhaustive()
    }
}

impl<B: Body + Unpin> Body for DrainBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let polled = ready!(Pin::new(inner).poll_frame(cx));
        if matches!(polled, None | Some(Err(_))) {
            self.inner = None;
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let ended = || SizeHint::with_exact(0);
        self.inner.as_ref().map_or_else(ended, Body::size_hint)
    }
}
