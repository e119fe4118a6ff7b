//! `ExposeInfoLayer`: puts the record of a call into its response.
//!
//! Put it outermost. The response's extensions then hold a [`RetryInfo`]: attempts, reasons,
//! delays, and why no further attempt was made. On an error, use `RetryInfo::track` instead.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::strategy::RetryOnce;
//! use reattempt::{RetryInfo, RetryLayer};
//! use reattempt_http::{ExposeInfoLayer, HttpClassifier};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(ExposeInfoLayer)
//!     .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
//!     .service_fn(|_: Request<()>| async {
//!         Ok::<_, std::convert::Infallible>(Response::builder().status(503).body(()).unwrap())
//!     });
//! let answer = service.oneshot(Request::new(())).await?;
//! assert_eq!(answer.extensions().get::<RetryInfo>().unwrap().attempts(), 2);
//! # Ok(()) }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
#[cfg(doc)]
use reattempt::RetryInfo;
use reattempt::{CallHandle, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

/// Puts a [`RetryInfo`] into each response's extensions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExposeInfoLayer;

impl<S> Layer<S> for ExposeInfoLayer {
    type Service = ExposeInfo<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ExposeInfo { inner }
    }
}

/// Created by [`ExposeInfoLayer`].
#[derive(Clone, Debug)]
pub struct ExposeInfo<S> {
    inner: S,
}

impl<S, Req, B> Service<Req> for ExposeInfo<S>
where
    S: Service<Req, Response = http::Response<B>>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ExposeInfoFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let handle = request.context_mut().begin();
        ExposeInfoFuture {
            inner: self.inner.call(request),
            handle,
        }
    }
}

pin_project! {
    /// The future of [`ExposeInfo`].
    #[derive(Debug)]
    pub struct ExposeInfoFuture<F> {
        #[pin]
        inner: F,
        handle: CallHandle,
    }
}

impl<F, B, E> Future for ExposeInfoFuture<F>
where
    F: Future<Output = Result<http::Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = ready!(this.inner.poll(cx));
        if let Ok(response) = &mut outcome {
            response.extensions_mut().insert(this.handle.info());
        }
        Poll::Ready(outcome)
    }
}
