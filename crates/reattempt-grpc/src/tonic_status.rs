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

#[cfg(test)]
mod tests {
    use std::io;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty, Full};
    use reattempt_http::AnyTransportError;
    use tonic::Code;

    use super::*;

    /// The body of a response whose head has no status.
    fn due<B>(inner: B) -> TonicStatusBody<B> {
        TonicStatusBody {
            inner,
            status_due: true,
            failed: false,
        }
    }

    fn page(status: u16, headers: &[(&'static str, &[u8])]) -> Response<()> {
        let mut response = Response::builder().status(status).body(()).unwrap();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value).unwrap();
            response.headers_mut().insert(*name, value);
        }
        response
    }

    #[test]
    fn an_http_page_has_the_code_of_its_head_and_its_headers() {
        let html: (_, &[u8]) = ("content-type", b"text/html");
        let grpc: (_, &[u8]) = ("content-type", b"application/grpc");
        let gone = |mut response: Response<()>| {
            response.extensions_mut().insert(crate::Code::Unknown);
            response
        };
        for (response, code, message) in [
            (
                page(503, &[html, ("content-length", b"7")]),
                Code::Unavailable,
                "HTTP 503 Service Unavailable without grpc-status (text/html)",
            ),
            (
                page(404, &[]),
                Code::Unimplemented,
                "HTTP 404 Not Found without grpc-status",
            ),
            (
                page(200, &[html]),
                Code::Unknown,
                "HTTP 200 OK without grpc-status (text/html)",
            ),
            (
                gone(page(200, &[grpc])),
                Code::Unknown,
                "HTTP 200 OK without grpc-status (application/grpc)",
            ),
        ] {
            let mut response = response;
            let headers = response.headers_mut();
            headers.insert("retry-after", 3.into());
            headers.insert(crate::PREVIOUS_ATTEMPTS, 2.into());
            let status = of_head(response).unwrap_err();
            assert_eq!((status.code(), status.message()), (code, message));
            let metadata = status.metadata();
            assert_eq!(metadata.get("retry-after").unwrap(), "3");
            assert_eq!(metadata.get("grpc-previous-rpc-attempts").unwrap(), "2");
            assert!(!metadata.contains_key("content-length"), "it has no body");
        }
    }

    #[test]
    fn a_content_type_is_shown_in_part_and_without_controls() {
        let long = [b"a\tb\xff ".as_slice(), &[b'x'; 500]].concat();
        let status = of_head(page(500, &[("content-type", &long)])).unwrap_err();
        let shown = format!("(ab {})", "x".repeat(59));
        assert!(status.message().ends_with(&shown), "{}", status.message());
    }

    #[test]
    fn a_status_in_the_head_and_grpc_web_pass_unchanged() {
        for response in [
            page(503, &[("grpc-status", b"14")]),
            page(
                200,
                &[("grpc-status", b"0"), ("content-type", b"text/html")],
            ),
            page(200, &[("content-type", b"application/grpc-web+proto")]),
            page(503, &[("content-type", b"Application/GRPC-Web-Text")]),
        ] {
            let passed = of_head(response).unwrap();
            assert!(!passed.body().status_due, "{passed:?}");
        }
        assert!(of_head(page(200, &[])).unwrap().body().status_due);
    }

    #[tokio::test]
    async fn a_stream_without_a_status_ends_with_one_error() {
        let message =
            || Full::<Bytes>::from("message").map_err(|never| -> Status { match never {} });
        let mut body = due(message());
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.inner.is_end_stream() && !body.is_end_stream());
        let status = body.frame().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(body.is_end_stream() && body.frame().await.is_none());

        let trailers = |name: &'static str| {
            let pairs = [(http::HeaderName::from_static(name), HeaderValue::from(0))];
            std::future::ready(Some(Ok(pairs.into_iter().collect())))
        };
        let mut body = due(message().with_trailers(trailers("x-other")));
        assert!(body.frame().await.unwrap().is_ok());
        let status = body.frame().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert!(body.frame().await.is_none());

        let mut body = due(message().with_trailers(trailers("grpc-status")));
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().unwrap().is_trailers());
        assert!(body.frame().await.is_none());
    }

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
        let mut body = due(inner);
        let status = body.frame().await.unwrap().unwrap_err();
        assert!(body.frame().await.is_none());
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(
            status.message(),
            "error reading a body from connection: connection reset"
        );
    }
}
