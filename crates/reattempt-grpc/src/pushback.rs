//! `grpc-retry-pushback-ms`: server-provided pushback (A6, Pushback).

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use reattempt::{ReadPushback, ServerPushback};

use crate::{Code, GRPC_STATUS};

/// The trailer that carries pushback.
pub const RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

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
        // Check for digits: `i32::from_str` would also accept a plus sign.
        let canonical = match value {
            [b'0'] => true,
            [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
            // A sign means stop, regardless of what follows.
            _ => false,
        };
        let text = std::str::from_utf8(value).ok().filter(|_| canonical);
        let ms = text.and_then(|text| text.parse::<i32>().ok());
        match ms.and_then(|ms| u64::try_from(ms).ok()) {
            Some(ms) => ServerPushback::After(Duration::from_millis(ms)),
            None => ServerPushback::Stop,
        }
    }

    /// The pushback in these trailers.
    #[must_use]
    pub fn of(trailers: &HeaderMap) -> Option<ServerPushback> {
        let mut values = trailers.get_all(RETRY_PUSHBACK_MS).iter();
        let first = values.next()?;
        if values.any(|other| other != first) {
            return Some(ServerPushback::Stop);
        }
        Some(Self::parse(first.as_bytes()))
    }
}

impl<B, E> ReadPushback<http::Response<B>, E> for GrpcPushback {
    fn read(&self, outcome: Result<&http::Response<B>, &E>) -> Option<ServerPushback> {
        let headers = outcome.ok()?.headers();
        let status = Code::from_header(headers.get(GRPC_STATUS)?);
        if status == Code::Ok {
            return None;
        }
        Self::of(headers)
    }
}
