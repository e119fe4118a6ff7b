//! `retry_http` on tower's `ServiceBuilder`.

use tower::ServiceBuilder;
use tower_layer::Stack;

use super::HttpClientLayer;
use crate::sealed::Sealed;

/// Adds HTTP retries to a [`ServiceBuilder`].
///
/// ```
/// use reattempt_http::HttpServiceBuilderExt;
/// use tower::ServiceBuilder;
///
/// let stack = ServiceBuilder::new().retry_http().concurrency_limit(100);
/// # let _ = stack;
/// ```
pub trait HttpServiceBuilderExt<L>: Sealed + Sized {
    /// Adds [`HttpClientLayer::standard`].
    fn retry_http(self) -> ServiceBuilder<Stack<HttpClientLayer, L>>;
}

impl<L> Sealed for ServiceBuilder<L> {}

impl<L> HttpServiceBuilderExt<L> for ServiceBuilder<L> {
    fn retry_http(self) -> ServiceBuilder<Stack<HttpClientLayer, L>> {
        self.layer(HttpClientLayer::standard())
    }
}
