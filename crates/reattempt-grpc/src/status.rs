//! `AsGrpcStatus`: an elapsed deadline as DEADLINE_EXCEEDED.

use http::{HeaderMap, Response};
use reattempt::Elapsed;
use reattempt::admission::{OnRefused, Refused};
use reattempt::circuit_breaker::{CircuitOpen, OnOpen};
use reattempt::deadline::OnElapsed;
use reattempt_http::body::OnBodyElapsed;

use crate::Code;
use crate::head::STATUS;
use crate::made_status::{trailers, trailers_only};
use crate::metadata::first;

/// Returns status 4, DEADLINE_EXCEEDED, for an elapsed deadline, as a server would.
///
/// For a `DeadlineLayer` it makes a Trailers-Only response, with [`Elapsed`] and its `RetryInfo` in
/// the extensions; for a `DeadlineBodyLayer` it ends the stream with trailers. (From a boxed error
/// tonic would make UNKNOWN or CANCELLED.)
///
/// Past the deadline it also replaces a transport error and the status CANCELLED. Both are results
/// of the channel's and the server's own timers on the same `grpc-timeout`, including tonic's, and
/// may arrive first.
///
/// Trailers have no extensions. The call's watch
/// ([`RetryInfo::track`](reattempt::RetryInfo::track)) tells this client's deadline from a
/// server that returned DEADLINE_EXCEEDED: it then has
/// [`StopReason::Deadline`](reattempt::StopReason). By then the server has the request, so for a
/// call that must not take effect twice such a timeout is always ambiguous.
///
/// ```
/// use std::time::Duration;
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use reattempt::{DeadlineLayer, RetryInfo};
/// use reattempt_grpc::AsGrpcStatus;
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), std::convert::Infallible> {
/// let service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(1)).on_elapsed(AsGrpcStatus))
///     .service_fn(|_: Request<()>| {
///         type Answer = Response<Empty<bytes::Bytes>>;
///         std::future::pending::<Result<Answer, std::convert::Infallible>>()
///     });
/// let answer = service.oneshot(Request::new(())).await?;
/// assert_eq!(answer.headers()["grpc-status"], "4");
/// assert!(answer.extensions().get::<RetryInfo>().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AsGrpcStatus;

/// CANCELLED from elsewhere: only the caller cancels a call, and then it does not wait for the
/// status.
fn is_cancelled(headers: &HeaderMap) -> bool {
    first(headers, &STATUS).is_some_and(|status| Code::from_header(status) == Code::Cancelled)
}

impl<B: Default, E> OnElapsed<Response<B>, E> for AsGrpcStatus {
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Response<B>, E> {
        let mut response = trailers_only(Code::DeadlineExceeded, &elapsed.to_string());
        response.extensions_mut().insert((*elapsed.info).clone());
        response.extensions_mut().insert(elapsed);
        Ok(response)
    }

    fn is_echo(&self, outcome: Result<&Response<B>, &E>) -> bool {
        outcome.map_or(true, |response| is_cancelled(response.headers()))
    }
}

/// A call that was not admitted is UNAVAILABLE, as a call that a load balancing policy drops; with
/// [`Refused`] in the extensions.
impl<B: Default, E> OnRefused<Response<B>, E> for AsGrpcStatus {
    fn on_refused(&self, refused: Refused) -> Result<Response<B>, E> {
        let mut response = trailers_only(Code::Unavailable, &refused.to_string());
        response.extensions_mut().insert(refused);
        Ok(response)
    }
}

/// An attempt that a circuit breaker refused is UNAVAILABLE, as one to a server that is down; with
/// [`CircuitOpen`] in the extensions.
impl<B: Default, E> OnOpen<Response<B>, E> for AsGrpcStatus {
    fn on_open(&self, refused: CircuitOpen) -> Result<Response<B>, E> {
        let mut response = trailers_only(Code::Unavailable, &refused.to_string());
        response.extensions_mut().insert(refused);
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

    fn is_echo(&self, end: Result<&HeaderMap, &E>) -> bool {
        end.map_or(true, is_cancelled)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::time::Duration;

    use bytes::Bytes;
    use http::{HeaderValue, Request};
    use http_body_util::{BodyExt, Empty};
    use reattempt::DeadlineLayer;
    use reattempt_http::body::DeadlineBodyLayer;
    use tower::{BoxError, ServiceBuilder, ServiceExt};

    use super::*;
    use crate::GRPC_STATUS;

    type End = Option<Result<HeaderMap, BoxError>>;

    /// The code of a stream with this end after this many ms, under a deadline of one second.
    async fn code_of(after: u64, end: impl FnOnce() -> End + Send + 'static) -> Option<Code> {
        let end = async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            end()
        };
        read(end).await
    }

    async fn read(end: impl Future<Output = End> + Send + 'static) -> Option<Code> {
        let body = Empty::<Bytes>::new()
            .map_err(|never| match never {})
            .with_trailers(end);
        let body = std::sync::Mutex::new(Some(body.boxed_unsync()));
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Duration::from_secs(1)).on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .service_fn(|_: Request<()>| {
                let body = body.lock().unwrap().take().unwrap_or_default();
                async { Ok::<_, BoxError>(Response::new(body)) }
            });
        let answer = service.oneshot(Request::new(())).await.unwrap();
        let collected = answer.into_body().collect().await.ok()?;
        let status = collected.trailers()?.get(GRPC_STATUS)?;
        Some(Code::from_header(status))
    }

    #[test]
    fn a_call_that_was_not_admitted_is_unavailable() {
        use reattempt::admission::{Admission, Criticality};

        let admission = Admission::default();
        (0..1000).for_each(|_| admission.ended(Criticality::CRITICAL, false));
        let mut asked = (0..100).map(|_| admission.admit(Criticality::CRITICAL));
        let refused = asked.find_map(Result::err).unwrap();
        let answer: Result<Response<Vec<u8>>, BoxError> = AsGrpcStatus.on_refused(refused);
        let answer = answer.unwrap();
        assert_eq!(answer.headers()[GRPC_STATUS], "14");
        assert_eq!(answer.extensions().get(), Some(&refused));
    }

    fn with_status(code: Code) -> End {
        let mut trailers = HeaderMap::new();
        trailers.insert(GRPC_STATUS, HeaderValue::from(code.number()));
        Some(Ok(trailers))
    }

    /// R14
    #[tokio::test(start_paused = true)]
    async fn streams_ended_at_the_deadline_are_deadline_exceeded() {
        let late = Some(Code::DeadlineExceeded);
        let cancelled = || with_status(Code::Cancelled);
        assert_eq!(code_of(999, cancelled).await, Some(Code::Cancelled));
        assert_eq!(code_of(1000, cancelled).await, late);
        let reset = || Some(Err(BoxError::from("reset")));
        assert_eq!(code_of(999, reset).await, None, "the transport's own error");
        assert_eq!(code_of(1000, reset).await, late);
        let ok = || with_status(Code::Ok);
        assert_eq!(code_of(1000, ok).await, Some(Code::Ok));
    }
}
