//! `grpc-timeout`: the caller's deadline in gRPC's format.
//!
//! [`GrpcTimeoutLayer`] reads the caller's value and attaches it as the call's deadline, which a
//! `DeadlineLayer` below enforces: the earlier of the caller's deadline and the service config's
//! `timeout` applies. [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer) writes the time left
//! on each attempt.
//!
//! ```
//! use std::convert::Infallible;
//! use std::future::pending;
//! use std::time::Duration;
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use reattempt::DeadlineLayer;
//! use reattempt_grpc::{AsGrpcStatus, GrpcTimeoutLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(GrpcTimeoutLayer)
//!     .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
//!     .service_fn(|_: Request<()>| {
//!         pending::<Result<Response<Empty<Bytes>>, Infallible>>()
//!     });
//! let began = tokio::time::Instant::now();
//! let request = Request::builder().header("grpc-timeout", "250m").body(()).unwrap();
//! let answer = service.oneshot(request).await?;
//! assert_eq!(answer.headers()["grpc-status"], "4");
//! assert_eq!(began.elapsed(), Duration::from_millis(250));
//! # Ok(()) }
//! ```

mod left;

use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use reattempt::{CallContext, CallDeadline, HasCallContext, StackCheck};
use reattempt_http::call::HttpRequest;
use tower_layer::Layer;
use tower_service::Service;

use crate::metadata::first;
use left::Left;

/// The header that carries the call's timeout.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The timeout in these headers; `None` if it is absent or malformed.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    static NAME: HeaderName = GRPC_TIMEOUT;
    first(headers, &NAME).and_then(parse)
}

/// The timeout that this value says; `None` if it is malformed.
pub(crate) fn parse(value: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    let is_number = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let amount: u64 = std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()?;
    Some(match unit {
        b'n' => Duration::from_nanos(amount),
        b'u' => Duration::from_micros(amount),
        b'm' => Duration::from_millis(amount),
        b'S' => Duration::from_secs(amount),
        b'M' => Duration::from_secs(amount * 60),
        b'H' => Duration::from_secs(amount * 3_600),
        _ => return None,
    })
}

/// Writes the call's remaining time, if it has a deadline, as the request's `grpc-timeout`,
/// unless that is already shorter.
///
/// [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer) does this when an attempt begins. A
/// transport that delayed the request since then (Wait for Ready) calls this before it sends.
pub fn renew_timeout<B>(request: &mut Request<B>) {
    if let Some(deadline) = request.context().and_then(CallContext::deadline) {
        let own = read(request.headers());
        renew(request.headers_mut(), deadline, own);
    }
}

/// The same for a request with this deadline and this timeout.
pub(crate) fn renew(headers: &mut HeaderMap, deadline: CallDeadline, own: Option<Duration>) {
    let left = Left::of(deadline.left(tokio::time::Instant::now().into_std()));
    if own.is_none_or(|own| left.duration() < own) {
        headers.insert(GRPC_TIMEOUT, left.value());
    }
}

/// Attaches the caller's `grpc-timeout` as the call's deadline. Place it above the
/// `DeadlineLayer`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcTimeoutLayer;

impl<S> Layer<S> for GrpcTimeoutLayer {
    type Service = GrpcTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcTimeout {
            inner,
            order: Some(StackCheck::default()),
        }
    }
}

/// The service that [`GrpcTimeoutLayer`] creates.
#[derive(Clone, Debug)]
pub struct GrpcTimeout<S> {
    inner: S,
    /// `None` directly above a `DeadlineLayer`.
    order: Option<StackCheck>,
}

impl<S> GrpcTimeout<S> {
    /// Directly above a `DeadlineLayer`, which enforces the caller's deadline whatever is above.
    #[cfg(feature = "tonic")]
    pub(crate) const fn above_deadline(inner: S) -> Self {
        Self { inner, order: None }
    }
}

impl<S, Req> Service<Req> for GrpcTimeout<S>
where
    S: Service<Req>,
    Req: HttpRequest,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let own = read(request.headers_mut());
        if let Some(timeout) = over_at_once(&request).or(own) {
            let now = tokio::time::Instant::now().into_std();
            if let Some(at) = now.checked_add(timeout) {
                let context = request.context_mut();
                if let Some(order) = &self.order {
                    if context.is_claimed()
                        || context.deadline().is_some_and(|deadline| deadline.enforced)
                    {
                        order.warn(
                            "GrpcTimeoutLayer",
                            "is inside the DeadlineLayer, which does not see the caller's grpc-timeout: put it above",
                        );
                    }
                }
                context.attach_deadline(CallDeadline::attached(at));
            }
        }
        self.inner.call(request)
    }
}

/// Zero if the method's config says so: the deadline has passed when the call begins, so nothing is
/// sent. A layer that enforces its own limit starts its clock with the call and would make a first
/// attempt.
fn over_at_once(request: &impl HasCallContext) -> Option<Duration> {
    let policy = request.context().and_then(CallContext::policy)?;
    policy.timeout().filter(Duration::is_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_TIMEOUT, HeaderValue::from_static(text));
        read(&headers)
    }

    #[test]
    fn all_units_are_read_and_junk_is_not() {
        assert_eq!(read_text("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(
            read_text("99999999n"),
            Some(Duration::from_nanos(99_999_999))
        );
        assert_eq!(read_text("0m"), Some(Duration::ZERO));
        for junk in ["", "m", "5", "-5m", "+5m", "123456789m", "5s", "1.5S"] {
            assert_eq!(read_text(junk), None, "{junk:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_callers_own_value_is_not_rounded_up() {
        let own = HeaderValue::from_static("5000400u");
        for (left, sent) in [(5_000_300, "5000400u"), (4_990_001, "4991000u")] {
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_TIMEOUT, own.clone());
            let at = tokio::time::Instant::now() + Duration::from_micros(left);
            let deadline = CallDeadline::attached(at.into_std());
            renew(&mut headers, deadline, parse(&own));
            assert_eq!(headers[GRPC_TIMEOUT], sent);
        }
    }
}
