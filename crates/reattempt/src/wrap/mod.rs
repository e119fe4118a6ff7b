//! `CallLayer` wraps plain requests for a stack of these layers; `UncallLayer` unwraps them again.
//!
//! ```
//! use reattempt::{CallLayer, UncallLayer};
//! use reattempt::deadline::DeadlineLayer;
//! use std::time::Duration;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(CallLayer::new())
//!     .layer(DeadlineLayer::new(Duration::from_secs(1)))
//!     .layer(UncallLayer::new())
//!     .service_fn(|name: &'static str| async move { Ok::<_, BoxError>(name.len()) });
//! assert_eq!(service.oneshot("plain").await?, 5);
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use crate::Call;
use tower_service::Service;

pub use layer::{CallLayer, UncallLayer};

/// Wraps each request in a [`Call`]. Made by [`CallLayer`].
#[derive(Clone, Copy, Debug)]
pub struct IntoCall<S> {
    inner: S,
}

impl<S, T> Service<T> for IntoCall<S>
where
    S: Service<Call<T>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: T) -> Self::Future {
        self.inner.call(Call::new(request))
    }
}

/// Unwraps each request from its [`Call`]. Made by [`UncallLayer`].
#[derive(Clone, Copy, Debug)]
pub struct OutOfCall<S> {
    inner: S,
}

impl<S, T> Service<Call<T>> for OutOfCall<S>
where
    S: Service<T>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, call: Call<T>) -> Self::Future {
        self.inner.call(call.request)
    }
}
