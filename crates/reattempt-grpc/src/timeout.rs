//! `grpc-timeout`: the caller's deadline in gRPC's format.
//!
//! [`GrpcTimeoutLayer`] reads the caller's value and attaches it as the call's time limit, which a
//! `DeadlineLayer` below enforces: the earlier of the caller's deadline and the service config's
//! `timeout` applies. [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer) writes the time left
//! on each attempt.
//!
//! ```
//! use std::time::Duration;
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use reattempt::DeadlineLayer;
//! use reattempt_grpc::{AsGrpcStatus, GrpcTimeoutLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(GrpcTimeoutLayer)
//!     .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
//!     .service_fn(|_: Request<()>| std::future::pending::<Result<Response<Empty<Bytes>>, std::convert::Infallible>>());
//! let began = tokio::time::Instant::now();
//! let request = Request::builder().header("grpc-timeout", "250m").body(()).unwrap();
//! let answer = service.oneshot(request).await?;
//! assert_eq!(answer.headers()["grpc-status"], "4");
//! assert_eq!(began.elapsed(), Duration::from_millis(250));
//! # Ok(()) }
//! ```

use std::cell::RefCell;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use reattempt::{CallContext, CallDeadline, HasCallContext, StackCheck};
use reattempt_http::call::HttpRequest;
use tower_layer::Layer;
use tower_service::Service;

use crate::metadata::first;

/// The header that carries the call's timeout.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// At most eight digits (gRPC over HTTP/2, Timeout).
const MOST: u64 = 99_999_999;
const DIGITS: usize = 8;
/// The digits of a time left that are sent: a thousandth is less than what timers differ by.
const DIGITS_KEPT: u32 = 4;
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3_600 * 1_000_000_000),
];

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

/// Four digits in the finest unit that needs at most eight, rounded up, so that the server never
/// times out first. Never zero: the format requires a positive integer.
///
/// So the first attempts of calls with the same timeout have the same value, which HPACK indexes.
/// A value of more than two digits is most likely a rest that no other call has: it is marked as
/// sensitive and not indexed, because each entry evicts a header that later calls share.
pub(crate) fn write(left: Duration) -> HeaderValue {
    let exact = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).max(1);
    let step = 10_u64.pow(exact.ilog10().saturating_sub(DIGITS_KEPT - 1));
    let kept = exact.div_ceil(step);
    let nanos = kept.saturating_mul(step);
    if kept % 100 != 0 {
        let mut value = text(nanos);
        value.set_sensitive(true);
        return value;
    }
    // A thread that is shutting down keeps nothing.
    let shared = LAST.try_with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        if last.0 != nanos {
            *last = (nanos, text(nanos));
        }
        Some(last.1.clone())
    });
    shared.ok().flatten().unwrap_or_else(|| text(nanos))
}

thread_local! {
    /// The last value that was not a rest, in nanoseconds and as a header: the next call most
    /// likely has the same.
    static LAST: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// This many nanoseconds, rounded up to the finest unit that needs at most eight digits.
fn text(nanos: u64) -> HeaderValue {
    let (unit, mut amount) = UNITS
        .iter()
        .map(|(unit, size)| (*unit, nanos.div_ceil(*size)))
        .find(|(_, amount)| *amount <= MOST)
        .unwrap_or((b'H', MOST));
    let mut text = [unit; DIGITS + 1];
    let mut first = DIGITS;
    while first == DIGITS || amount > 0 {
        first -= 1;
        text[first] = b'0' + (amount % 10) as u8;
        amount /= 10;
    }
    HeaderValue::from_bytes(&text[first..]).unwrap_or(HeaderValue::from_static("99999999H"))
}

/// Writes the call's remaining time, if it has a time limit, as the request's `grpc-timeout`,
/// unless that is already shorter.
///
/// [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer) does this when an attempt begins. A
/// transport that delayed the request since then (Wait for Ready) calls this before it sends.
pub fn renew_timeout<B>(request: &mut Request<B>) {
    if let Some(limit) = request.context().and_then(CallContext::limit) {
        let own = read(request.headers());
        renew(request.headers_mut(), limit, own);
    }
}

/// The same for a request with this limit and this timeout.
pub(crate) fn renew(headers: &mut HeaderMap, limit: CallDeadline, own: Option<Duration>) {
    let left = limit.left(tokio::time::Instant::now().into_std());
    if own.is_none_or(|own| left < own) {
        headers.insert(GRPC_TIMEOUT, write(left));
    }
}

/// Attaches the caller's `grpc-timeout` as the call's time limit. Place it above the
/// `DeadlineLayer`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcTimeoutLayer;

impl<S> Layer<S> for GrpcTimeoutLayer {
    type Service = GrpcTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcTimeout {
            inner,
            order: StackCheck::default(),
        }
    }
}

/// The service that [`GrpcTimeoutLayer`] creates.
#[derive(Clone, Debug)]
pub struct GrpcTimeout<S> {
    inner: S,
    order: StackCheck,
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
                if context.is_claimed() || context.limit().is_some_and(|limit| limit.enforced) {
                    self.order.warn(
                        "GrpcTimeoutLayer",
                        "is inside the DeadlineLayer, which does not see the caller's grpc-timeout: put it above",
                    );
                }
                context.stamp_limit(CallDeadline::stamped(at));
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

    #[test]
    fn the_finest_unit_that_fits_is_written_rounded_up() {
        assert_eq!(write(Duration::from_millis(50)), "50000000n");
        assert_eq!(write(Duration::from_nanos(100_000_001)), "100100u");
        assert_eq!(write(Duration::from_secs(100)), "100000m");
        assert_eq!(write(Duration::ZERO), "1n");
        assert_eq!(
            write(Duration::from_secs(u64::MAX / 1_000_000_000)),
            "5124096H"
        );
        assert_eq!(write(Duration::MAX), "5124096H", "all that 64 bits can say");
        for nanos in [1, 9, 10, 9_999, 99_990_000] {
            assert_eq!(
                write(Duration::from_nanos(nanos)),
                format!("{nanos}n").as_str()
            );
        }
    }

    #[test]
    fn what_is_written_is_at_most_a_thousandth_more() {
        // Up to two years, which are sent in seconds.
        for exact in (8..64).map(|bits| u64::MAX >> bits) {
            let written = parse(&write(Duration::from_nanos(exact))).unwrap();
            assert!(written >= Duration::from_nanos(exact));
            assert!(written <= Duration::from_nanos(exact + exact / 1_000));
        }
    }

    /// HPACK indexes a value that is not sensitive.
    #[test]
    fn first_attempts_with_the_same_timeout_send_the_same_value() {
        let spent = Duration::from_micros(7);
        for timeout in [100, 250, 1_000, 1_500, 5_000, 30_000, 600_000] {
            let timeout = Duration::from_millis(timeout);
            let value = write(timeout - spent);
            assert_eq!(parse(&value), Some(timeout));
            assert!(!value.is_sensitive(), "{timeout:?}");
        }
        let rest = write(Duration::from_micros(3_791_234));
        assert_eq!(parse(&rest), Some(Duration::from_millis(3_792)));
        assert!(rest.is_sensitive());
    }
}
