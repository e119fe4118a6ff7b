//! `AnyTransportError`: one type for the errors of any transport.

use std::error::Error;
use std::fmt;

use reattempt::Elapsed;

/// A boxed error of any transport: for services whose error type does not implement
/// [`TransportError`]. Put `.map_err(AnyTransportError::new)` directly above them.
///
/// Boxed errors (of tower's `Buffer`, for example) do not need this: they implement the trait. But
/// `.map_err(BoxError::from)` in a stack that is moved into a spawned task fails to compile: the
/// "implementation of `TransportError` is not general enough". This type does the same and
/// compiles.
///
/// ```
/// use http::{Request, Response};
/// use reattempt::RetryLayer;
/// use reattempt::strategy::RetryOnce;
/// use reattempt_http::{AnyTransportError, HttpClassifier};
/// use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("my transport failed")]
/// struct Mine(#[source] std::io::Error);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let client = ServiceBuilder::new()
///     .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
///     .map_err(AnyTransportError::new)
///     .service_fn(|_: Request<()>| async { Ok::<_, Mine>(Response::new("hello")) });
/// let task = tokio::spawn(async move { client.oneshot(Request::new(())).await });
/// assert_eq!(task.await??.into_body(), "hello");
/// # Ok(()) }
/// ```
///
/// [`TransportError`]: super::TransportError
#[derive(Debug)]
pub struct AnyTransportError(pub(super) Box<dyn Error + Send + Sync>);

impl AnyTransportError {
    /// Boxes this error.
    #[must_use]
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// The error itself.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl fmt::Display for AnyTransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for AnyTransportError {
    // The error itself, not its source: otherwise code that searches the source chain, such as
    // tonic, would not find it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Allows a `DeadlineLayer` above it.
impl From<Elapsed> for AnyTransportError {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(elapsed)
    }
}
