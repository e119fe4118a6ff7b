//! `ServiceErrorLayer`: reads the service's own error from the body of an answer, and hands the
//! body on as it came.
//!
//! Put it inside the recovery layer, right above the transport. It reads as little as the verdict
//! needs, keeps what it has read, and gives the caller a body that begins with that: nothing is
//! lost, added or put in another order, and where the body breaks off it breaks off for the caller
//! too. It changes the response's type: `Response<B>` becomes `Response<ServiceBody<B>>`.
//!
//! | the answer | is read until |
//! | --- | --- |
//! | not 2xx, of query or analytics | its first error is there whole |
//! | not 2xx, of search or views, where the text matters | the text is found |
//! | any other that is not 2xx | not at all: the status decides |
//! | 2xx | its first error (query, analytics) is there whole |
//!
//! Whatever it looks for, it stops at the body's end, and at its bounds: a failed answer is judged
//! by its first 64 KiB, or what came of it within 5 s; a good one is let go after 16 KiB, or 1 s
//! after its first row. It goes to the caller then, and the rest is looked at while the caller
//! reads it: an error that comes late, or a body that breaks off late, leads to no further attempt,
//! but counts as a failure (for the throttle, in `RetryInfo`). The body of a compressed answer is
//! not looked into: its status decides.

mod body;
mod future;
mod held;

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use reattempt::Annotated;
use reattempt::order::InsideRecovery;
use tower_layer::Layer;
use tower_service::Service;

pub use body::ServiceBody;
pub use future::ServiceErrorFuture;

use super::HttpService;

/// How much of an answer is read before it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    bytes: usize,
    time: Duration,
}

/// Reads errors from bodies. What it found is a [`ServiceAnswer`](super::ServiceAnswer) in the
/// response's extensions.
#[derive(Clone, Copy, Debug)]
pub struct ServiceErrorLayer {
    service: HttpService,
    failed: Bounds,
    good: Bounds,
}

impl ServiceErrorLayer {
    /// For answers of this service.
    #[must_use]
    pub const fn new(service: HttpService) -> Self {
        Self {
            service,
            failed: Bounds {
                bytes: 64 * 1024,
                time: Duration::from_secs(5),
            },
            good: Bounds {
                bytes: 16 * 1024,
                time: Duration::from_secs(1),
            },
        }
    }

    /// Judges a failed answer by so many bytes of its body (64 KiB), or what came of it within
    /// `time` (5 s).
    #[must_use]
    pub const fn failed_answers(mut self, bytes: usize, time: Duration) -> Self {
        self.failed = Bounds { bytes, time };
        self
    }

    /// Lets a good answer go after so many bytes of its body (16 KiB), or `time` after its first
    /// row (1 s; with search, views and management after its head). Up to there an error in it
    /// leads to another attempt, and the caller waits. With zero bytes it goes at once.
    #[must_use]
    pub const fn good_answers(mut self, bytes: usize, time: Duration) -> Self {
        self.good = Bounds { bytes, time };
        self
    }
}

impl<S> Layer<S> for ServiceErrorLayer {
    type Service = ServiceErrorService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServiceErrorService {
            inner,
            layer: *self,
            order: InsideRecovery::default(),
        }
    }
}

/// Made by [`ServiceErrorLayer`].
#[derive(Clone, Debug)]
pub struct ServiceErrorService<S> {
    inner: S,
    layer: ServiceErrorLayer,
    order: InsideRecovery,
}

impl<S, Req, B> Service<Req> for ServiceErrorService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body<Data = Bytes> + Unpin,
    Req: Annotated,
{
    type Response = Response<ServiceBody<B>>;
    type Error = S::Error;
    type Future = ServiceErrorFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context();
        self.order.check("ServiceErrorLayer", context);
        let context = context.cloned().unwrap_or_default();
        ServiceErrorFuture::new(self.inner.call(request), self.layer, context)
    }
}
