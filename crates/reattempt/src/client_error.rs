//! `ClientError`: one error type for a stack that can end at its own deadline.
//!
//! A `DeadlineLayer` needs an error type that has room for [`Elapsed`]. Put [`ClientErrorLayer`]
//! directly above the transport: everything above it then returns [`ClientError`], and the
//! transport's own error stays reachable without a downcast. The presets include it.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use reattempt::{Call, ClientError, ClientErrorLayer, DeadlineLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::new(Duration::from_millis(50)))
//!     // … RetryLayer here …
//!     .layer(ClientErrorLayer)
//!     .service_fn(|call: Call<bool>| async move {
//!         if call.request { return Err(io::Error::from(io::ErrorKind::ConnectionRefused)) }
//!         std::future::pending::<Result<(), _>>().await
//!     });
//! let refused = service.clone().oneshot(Call::new(true)).await.unwrap_err();
//! assert_eq!(refused.transport().map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
//! let late = service.oneshot(Call::new(false)).await.unwrap_err();
//! assert!(matches!(late, ClientError::Elapsed(_)));
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::Elapsed;
use crate::circuit_breaker::CircuitOpen;
use crate::policy::admission::Refused;

/// Why a call has no response: the transport failed, the deadline passed, it was not admitted, or
/// the circuit breaker of its backend is open.
///
/// It is an [`Error`](std::error::Error) if the transport's own is one, which a `Box<dyn Error>`
/// (of tower's `Buffer`, for example) is not: for HTTP put `.map_err(AnyTransportError::new)` of
/// reattempt-http directly above such a transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// The transport's own error, unchanged. It is the source too, so that code that searches the
    /// chain finds it.
    #[error("{0}")]
    Transport(#[source] E),
    /// The deadline of the call or of its last attempt passed.
    #[error("{0}")]
    Elapsed(#[from] Elapsed),
    /// An `AdmissionLayer` refused the call: nothing was sent.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// A `CircuitBreakerLayer` refused the last attempt: it was not sent.
    #[error("{0}")]
    CircuitOpen(#[from] CircuitOpen),
}

impl<E> ClientError<E> {
    /// The transport's own error.
    #[must_use]
    pub const fn transport(&self) -> Option<&E> {
        match self {
            Self::Transport(error) => Some(error),
            Self::Elapsed(_) | Self::Refused(_) | Self::CircuitOpen(_) => None,
        }
    }

    /// The transport's own error by value, or the error unchanged if the transport has none: for an
    /// error type of your own.
    ///
    /// ```
    /// use std::io;
    /// use reattempt::ClientError;
    ///
    /// enum ShopError { Io(io::Error), Late, Refused }
    ///
    /// impl From<ClientError<io::Error>> for ShopError {
    ///     fn from(error: ClientError<io::Error>) -> Self {
    ///         match error.into_transport() {
    ///             Ok(error) => Self::Io(error),
    ///             Err(ClientError::Elapsed(_)) => Self::Late,
    ///             Err(_) => Self::Refused,
    ///         }
    ///     }
    /// }
    ///
    /// let error = ClientError::Transport(io::Error::from(io::ErrorKind::NotFound));
    /// assert!(matches!(error.into(), ShopError::Io(_)));
    /// # let _ = (ShopError::Late, ShopError::Refused);
    /// ```
    ///
    /// # Errors
    ///
    /// The error itself: the call ended at its deadline, or was refused.
    pub fn into_transport(self) -> Result<E, Self> {
        match self {
            Self::Transport(error) => Ok(error),
            other => Err(other),
        }
    }

    /// The error in a box; of the transport, its own: for `?` where `E` is a `Box<dyn Error>` (of
    /// tower's `Buffer`, for example), with which this type is no [`Error`](std::error::Error).
    ///
    /// ```
    /// use reattempt::{ClientError, Elapsed};
    /// use tower::BoxError;
    ///
    /// fn last(outcome: Result<u16, ClientError<BoxError>>) -> Result<u16, BoxError> {
    ///     Ok(outcome.map_err(ClientError::into_boxed)?)
    /// }
    ///
    /// let refused = last(Err(ClientError::Transport("refused".into())));
    /// assert_eq!(refused.unwrap_err().to_string(), "refused");
    /// ```
    pub fn into_boxed(self) -> Box<dyn std::error::Error + Send + Sync>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match self {
            Self::Transport(error) => error.into(),
            Self::Elapsed(elapsed) => elapsed.into(),
            Self::Refused(refused) => refused.into(),
            Self::CircuitOpen(open) => open.into(),
        }
    }

    /// What is known about a call that ended at its deadline.
    #[must_use]
    pub const fn elapsed(&self) -> Option<&Elapsed> {
        match self {
            Self::Elapsed(elapsed) => Some(elapsed),
            Self::Transport(_) | Self::Refused(_) | Self::CircuitOpen(_) => None,
        }
    }
}

/// Returns the errors of the service below as [`ClientError::Transport`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientErrorLayer;

impl<S> Layer<S> for ClientErrorLayer {
    type Service = WithClientError<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithClientError { inner }
    }
}

/// A service whose error is a [`ClientError`]. Made by [`ClientErrorLayer`].
#[derive(Clone, Copy, Debug)]
pub struct WithClientError<S> {
    inner: S,
}

impl<S: Service<Req>, Req> Service<Req> for WithClientError<S> {
    type Response = S::Response;
    type Error = ClientError<S::Error>;
    type Future = WithClientErrorFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(ClientError::Transport)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        WithClientErrorFuture {
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// The future of [`WithClientError`].
    #[derive(Debug)]
    pub struct WithClientErrorFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, T, E> Future for WithClientErrorFuture<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, ClientError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project()
            .inner
            .poll(cx)
            .map_err(ClientError::Transport)
    }
}
