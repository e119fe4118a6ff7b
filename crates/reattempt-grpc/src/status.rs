//! `AsGrpcStatus`: an elapsed deadline as DEADLINE_EXCEEDED.

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use reattempt::Elapsed;
use reattempt::deadline::OnElapsed;
use reattempt_http::body::OnBodyElapsed;

use crate::{Code, GRPC_MESSAGE, GRPC_STATUS};

/// Answers an elapsed deadline with status 4, DEADLINE_EXCEEDED, as a server would.
///
/// For a `DeadlineLayer` it makes a Trailers-Only response, with [`Elapsed`] and its `RetryInfo` in the extensions; for a
/// `DeadlineBodyLayer` it ends the stream with trailers. (Through a boxed error tonic would say UNKNOWN or CANCELLED.)
///
/// Trailers have no extensions: whether it was this client's deadline that ended a stream, and not a server that said
/// DEADLINE_EXCEEDED, is known from the call's watch ([`CallContext::watch`](reattempt::CallContext::watch)), which then says
/// [`Stopped::Deadline`](reattempt::Stopped). By then the server has the request, so of a call that may not take effect twice such a
/// timeout is always ambiguous.
///
/// ```
/// use std::time::Duration;
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use reattempt::{DeadlineLayer, RetryInfo};
/// use reattempt_grpc::AsGrpcStatus;
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), std::convert::Infallible> {
/// let service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(1)).on_elapsed(AsGrpcStatus))
///     .service_fn(|_: Request<()>| {
///         std::future::pending::<Result<Response<Empty<bytes::Bytes>>, std::convert::Infallible>>()
///     });
/// let answer = service.oneshot(Request::new(())).await?;
/// assert_eq!(answer.headers()["grpc-status"], "4");
/// assert!(answer.extensions().get::<RetryInfo>().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AsGrpcStatus;

/// A status that is made on this side, as trailers.
pub(crate) fn trailers(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    trailers.insert(GRPC_STATUS, HeaderValue::from(code.number()));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(message)) {
        trailers.insert(GRPC_MESSAGE, message);
    }
    trailers
}

/// The same as a Trailers-Only answer.
pub(crate) fn trailers_only<B: Default>(code: Code, message: &str) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.headers_mut() = trailers(code, message);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// gRPC over HTTP/2, Status-Message: everything but printable ASCII, and `%` itself, as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f..=0xff => {
                // Writing to a `String` cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
            printable => encoded.push(char::from(printable)),
        }
    }
    encoded
}

impl<B: Default, E> OnElapsed<Response<B>, E> for AsGrpcStatus {
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Response<B>, E> {
        let mut response = trailers_only(Code::DeadlineExceeded, &elapsed.to_string());
        response.extensions_mut().insert((*elapsed.info).clone());
        response.extensions_mut().insert(elapsed);
        Ok(response)
    }
}

impl<E> OnBodyElapsed<E> for AsGrpcStatus {
    type Error = E;

    fn elapsed(&self, elapsed: Elapsed) -> Result<HeaderMap, E> {
        Ok(trailers(Code::DeadlineExceeded, &elapsed.to_string()))
    }

    fn failed(&self, error: E) -> E {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("50% of \u{fc}\n"), "50%25 of %C3%BC%0A");
    }
}
