//! `TonicStatusLayer`: returns channel errors as the status that gRPC gives them.
//!
//! A tonic client converts a channel error to a status by tonic's own rules: a lost connection is
//! UNKNOWN ("transport error"), and `Endpoint::timeout` is CANCELLED. The records of the same call
//! have UNAVAILABLE and DEADLINE_EXCEEDED, because [`GrpcClassifier`](crate::GrpcClassifier) reads
//! how the transport failed. This layer returns the same code to the caller: the error becomes a
//! [`tonic::Status`], which a generated client returns unchanged. Errors of a response stream are
//! converted the same way.
//!
//! The original error is the status's [source](std::error::Error::source), and the message has the
//! texts of the whole chain. Unknown errors are converted by [`tonic::Status::from_error`].
//! Statuses of servers pass unchanged.
//!
//! Place it above the recovery layers, which classify the transport's own error; below them it does
//! not compile. It may stand above or below a `DeadlineLayer`.
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_grpc::{GrpcClassifier, TonicStatusLayer};
//! use std::io;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # type Body = Empty<bytes::Bytes>;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let service = ServiceBuilder::new()
//!     .layer(TonicStatusLayer)
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
//!     .service_fn(|_: Request<()>| async {
//!         Err::<Response<Body>, _>(io::Error::from(io::ErrorKind::ConnectionReset))
//!     });
//! let status = service.oneshot(Request::new(())).await.unwrap_err();
//! assert_eq!(status.code(), tonic::Code::Unavailable);
//! # }
//! ```

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::iter::successors;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt_http::{TransportError, TransportFault};
use tonic::Status;
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::failure_of_fault;

type BoxError = Box<dyn Error + Send + Sync>;

/// Converts channel errors to the [`tonic::Status`] that gRPC gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TonicStatusLayer;

impl<S> Layer<S> for TonicStatusLayer {
    type Service = TonicStatus<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TonicStatus { inner }
    }
}

/// The service that [`TonicStatusLayer`] creates.
#[derive(Clone, Debug)]
pub struct TonicStatus<S> {
    inner: S,
}

impl<S, Req, B> Service<Req> for TonicStatus<S>
where
    S: Service<Req, Response = Response<B>>,
    S::Error: TransportError + Into<BoxError>,
{
    type Response = Response<TonicStatusBody<B>>;
    type Error = Status;
    type Future = TonicStatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.inner.poll_ready(cx).map_err(of_call)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        TonicStatusFuture {
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// The future of [`TonicStatus`].
    pub struct TonicStatusFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F> fmt::Debug for TonicStatusFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TonicStatusFuture").finish_non_exhaustive()
    }
}

impl<F, B, E> Future for TonicStatusFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: TransportError + Into<BoxError>,
{
    type Output = Result<Response<TonicStatusBody<B>>, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.project().inner.poll(cx));
        Poll::Ready(match outcome {
            Ok(response) => Ok(response.map(|inner| TonicStatusBody { inner })),
            Err(error) => Err(of_call(error)),
        })
    }
}

pin_project! {
    /// A response stream whose error is a [`tonic::Status`].
    #[derive(Default)]
    pub struct TonicStatusBody<B> {
        #[pin]
        inner: B,
    }
}

impl<B> fmt::Debug for TonicStatusBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TonicStatusBody").finish_non_exhaustive()
    }
}

impl<B> Body for TonicStatusBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Status>>> {
        let frame = ready!(self.project().inner.poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|error| {
                let error = error.into();
                of_fault(TransportFault::of(&*error), error)
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn of_call<E: TransportError + Into<BoxError>>(error: E) -> Status {
    of_fault(error.fault(), error.into())
}

fn of_fault(fault: TransportFault, error: BoxError) -> Status {
    if fault == TransportFault::Unknown {
        return Status::from_error(error);
    }
    let code = tonic::Code::from(failure_of_fault(fault).0.number());
    let mut status = Status::new(code, texts(&*error));
    status.set_source(Arc::from(error));
    status
}

/// The texts of the error and its sources, without repetitions: a wrapper often includes the text
/// of its source, and a status prints its whole chain.
fn texts(error: &(dyn Error + 'static)) -> String {
    // Bounded, because the length of the chain is not under our control.
    let chain = successors(Some(error), |&error| error.source()).take(32);
    let mut texts: Vec<String> = chain
        .map(|error| match error.downcast_ref::<Status>() {
            Some(status) => status.message().to_owned(),
            None => error.to_string(),
        })
        .collect();
    texts.dedup();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};
    use reattempt_http::AnyTransportError;
    use tonic::Code;

    use super::*;

    #[test]
    fn an_error_keeps_its_texts_and_is_the_source() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nothing listens");
        let status = of_call(AnyTransportError::new(refused));
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "nothing listens");
        let source = status.source().and_then(|error| error.source());
        let source = source.and_then(|error| error.downcast_ref::<io::Error>());
        assert_eq!(
            source.map(io::Error::kind),
            Some(io::ErrorKind::ConnectionRefused)
        );
    }

    #[test]
    fn an_error_of_which_nothing_is_known_is_left_to_tonic() {
        let own = AnyTransportError::new(Status::permission_denied("not you"));
        let status = of_call(own);
        assert_eq!(
            (status.code(), status.message()),
            (Code::PermissionDenied, "not you")
        );
        let status = of_call(AnyTransportError::new("no idea"));
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unknown, "no idea")
        );
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_has_the_code_of_its_fault() {
        let mut broken = Status::unknown("error reading a body from connection");
        broken.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        let end = std::future::ready(Some(Err(broken)));
        let inner = Empty::<Bytes>::new()
            .map_err(|never| match never {})
            .with_trailers(end);
        let status = TonicStatusBody { inner }.collect().await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(
            status.message(),
            "error reading a body from connection: connection reset"
        );
    }
}
