//! `TonicStatusLayer`: returns channel errors as the status that gRPC gives them.
//!
//! A tonic client converts a channel error to a status by tonic's own rules: a lost connection is
//! UNKNOWN ("transport error"), and `Endpoint::timeout` is CANCELLED. The records of the same call
//! have UNAVAILABLE and DEADLINE_EXCEEDED, because [`GrpcClassifier`](crate::GrpcClassifier) reads
//! how the transport failed. This layer returns the same code to the caller: the error becomes a
//! [`tonic::Status`], which a generated client returns unchanged. Errors of a response stream are
//! converted the same way.
//!
//! A response without `grpc-status` is an error too, with the code of the records: an HTTP page of
//! a proxy has that of [`Code::from_head`](crate::Code::from_head), and its headers are the
//! status's metadata; a stream that ends without a status is INTERNAL, and trailers without one are
//! UNKNOWN. A response of grpc-web passes unchanged.
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

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::iter::successors;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt_http::{TransportError, TransportFault};
use tonic::Status;
use tonic::metadata::MetadataMap;
use tower_layer::Layer;
use tower_service::Service;

use crate::Code;
use crate::classify::failure_of_fault;
use crate::head::{STATUS, is_grpc_web, status_in_head};
use crate::metadata::first;

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
            Ok(response) => of_head(response),
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
        // Neither the head nor the stream so far has a status.
        status_due: bool,
        // The stream ended with an error.
        failed: bool,
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
        let this = self.project();
        if *this.failed {
            return Poll::Ready(None);
        }
        let error = match ready!(this.inner.poll_frame(cx)) {
            Some(Ok(frame)) => match frame.trailers_ref() {
                Some(trailers) if *this.status_due && first(trailers, &STATUS).is_none() => {
                    Status::unknown("trailers without grpc-status")
                }
                trailers => {
                    *this.status_due &= trailers.is_none();
                    return Poll::Ready(Some(Ok(frame)));
                }
            },
            Some(Err(error)) => {
                let error = error.into();
                of_fault(TransportFault::of(&*error), error)
            }
            None if *this.status_due => Status::internal("the stream ended without a status"),
            None => return Poll::Ready(None),
        };
        *this.failed = true;
        Poll::Ready(Some(Err(error)))
    }

    fn is_end_stream(&self) -> bool {
        // As long as a status is due, a reader must poll once more for the error.
        self.failed || (!self.status_due && self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.failed {
            return SizeHint::with_exact(0);
        }
        self.inner.size_hint()
    }
}

/// tonic would read the body of an HTTP page as messages, and fail with an error about their form.
fn of_head<B>(response: Response<B>) -> Result<Response<TonicStatusBody<B>>, Status> {
    let code = status_in_head(&response);
    let headers = response.headers();
    let has_own = || first(headers, &STATUS).is_some() || is_grpc_web(headers);
    match code {
        Some(code) if !has_own() => Err(without_status(code, response)),
        code => Ok(response.map(|inner| TonicStatusBody {
            inner,
            status_due: code.is_none(),
            failed: false,
        })),
    }
}

/// The status of a head that has none of its own.
#[cold]
fn without_status<B>(code: Code, response: Response<B>) -> Status {
    let mut headers = response.headers().clone();
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.map(|value| format!(" ({})", shown(value)));
    let content_type = content_type.unwrap_or_default();
    let message = format!(
        "HTTP {} without grpc-status{content_type}",
        response.status()
    );
    // The length of a body that is dropped: a server that returns this status would send it on.
    headers.remove(CONTENT_LENGTH);
    let code = tonic::Code::from(code.number());
    Status::with_metadata(code, message, MetadataMap::from_headers(headers))
}

/// The visible characters of the beginning of a header.
fn shown(value: &HeaderValue) -> String {
    let visible = |byte: &u8| matches!(byte, b' '..=b'~');
    let bytes = value.as_bytes().iter().copied().take(64);
    bytes.filter(visible).map(char::from).collect()
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
