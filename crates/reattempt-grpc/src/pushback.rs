//! `grpc-retry-pushback-ms`: server-provided pushback (A6, Pushback).

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reattempt::{CallContext, FoundPushback, ReadPushback, ServerPushback};

use crate::Code;
use crate::head::STATUS;

/// The trailer that carries pushback.
pub const RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

// A reference to a constant makes a value of it each time.
static PUSHBACK: HeaderName = RETRY_PUSHBACK_MS;

/// Reads A6's pushback from Trailers-Only responses, strictly. Use it in a `PushbackLayer` below
/// the recovery layer.
///
/// The value is an optional `-` and digits without leading zeros, within 32 bits. 0 or more is a
/// delay in milliseconds; a negative value means stop. So does any other value, and two different
/// values. A response with status OK, or one that is not Trailers-Only, has no pushback.
///
/// ```
/// use reattempt::{ReadPushback, ServerPushback};
/// use reattempt_grpc::GrpcPushback;
/// use std::time::Duration;
///
/// let after = |ms| ServerPushback::After(Duration::from_millis(ms));
/// assert_eq!(GrpcPushback::parse(b"250"), after(250));
/// assert_eq!(GrpcPushback::parse(b"-1"), ServerPushback::Stop);
/// assert_eq!(GrpcPushback::parse(b"007"), ServerPushback::Stop);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcPushback;

impl GrpcPushback {
    /// Parses one value.
    #[must_use]
    pub fn parse(value: &[u8]) -> ServerPushback {
        // Anything else means stop: a sign too, regardless of what follows.
        let is_canonical = matches!(value, [b'0'] | [b'1'..=b'9', ..]);
        let ms = value.iter().try_fold(0_u64, |ms, digit| {
            let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xf))?;
            Some(ms.saturating_mul(10).saturating_add(digit))
        });
        match ms.filter(|ms| is_canonical && i32::try_from(*ms).is_ok()) {
            Some(ms) => ServerPushback::After(Duration::from_millis(ms)),
            None => ServerPushback::Stop,
        }
    }

    /// The pushback in these trailers.
    #[must_use]
    pub fn of(trailers: &HeaderMap) -> Option<ServerPushback> {
        Self::read(trailers, |_| {}).1
    }

    /// The pushback of a response with this head. Names of others are shown to `other`.
    #[inline]
    pub(crate) fn of_head(
        head: &HeaderMap,
        other: impl FnMut(&HeaderName),
    ) -> Option<ServerPushback> {
        match Self::read(head, other) {
            (None | Some(Code::Ok), _) => None,
            (Some(_), pushback) => pushback,
        }
    }

    /// The status and the pushback, in one pass: a look-up of each name hashes it, which costs more
    /// than the pass over the few trailers of a call.
    #[inline]
    fn read(
        trailers: &HeaderMap,
        mut other: impl FnMut(&HeaderName),
    ) -> (Option<Code>, Option<ServerPushback>) {
        let (mut status, mut pushback) = (None, None::<&HeaderValue>);
        let mut contradicts = false;
        for (name, value) in trailers {
            if status.is_none() && *name == STATUS {
                status = Some(Code::from_header(value));
            } else if *name == PUSHBACK {
                contradicts |= pushback.is_some_and(|first| first != value);
                pushback = Some(value);
            } else {
                other(name);
            }
        }
        let pushback = pushback.map(|value| match contradicts {
            true => ServerPushback::Stop,
            false => Self::parse(value.as_bytes()),
        });
        (status, pushback)
    }
}

impl<B, E> ReadPushback<http::Response<B>, E> for GrpcPushback {
    #[inline]
    fn read(&self, outcome: Result<&http::Response<B>, &E>, _: &CallContext) -> FoundPushback {
        let head = outcome.ok().map(http::Response::headers);
        head.and_then(|head| Self::of_head(head, |_| {})).into()
    }
}
