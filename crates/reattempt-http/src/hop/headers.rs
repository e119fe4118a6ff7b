//! The headers between hops, and how each is read and written.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The number of an attempt, from 1. Defined by Envoy.
pub const ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
/// How long the client waits for a response, in milliseconds. Defined by Envoy.
pub const EXPECTED_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// The number of an attempt, the maximum, and the deadline as an instant:
/// [`AmzSdkRequest`](super::AmzSdkRequest). Defined by the AWS SDKs.
pub const AMZ_SDK_REQUEST: HeaderName = HeaderName::from_static("amz-sdk-request");
/// The reason of the failure that caused the attempt. Defined by reattempt.
pub const RETRY_REASON: HeaderName = HeaderName::from_static("x-reattempt-reason");
/// In a response: the call must not be retried, and why. Defined by reattempt.
pub const DO_NOT_RETRY: HeaderName = HeaderName::from_static("x-reattempt-do-not-retry");
/// In a response: Envoy does not retry it, whatever the value, unless a route asks for
/// `envoy-ratelimited`.
pub const ENVOY_RATELIMITED: HeaderName = HeaderName::from_static("x-envoy-ratelimited");
/// gRPC's pushback (A6): a negative number means stop.
pub(super) const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The maximum length of a token from a peer.
const LONGEST_WORD: usize = 64;

/// The value of a header that occurs once; several values are ambiguous.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    Some(value.to_str().ok()?.trim())
}

/// `1*DIGIT`, saturating.
pub(super) fn digits(text: &str) -> Option<u64> {
    let right = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    right.then(|| text.parse().unwrap_or(u64::MAX))
}

/// A token from a peer: short, and of the characters that names have.
fn word<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let text = only(headers, name)?;
    let right = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let right = (1..=LONGEST_WORD).contains(&text.len()) && text.bytes().all(right);
    right.then_some(text)
}

fn set_word(headers: &mut HeaderMap, name: HeaderName, word: &str) {
    match HeaderValue::from_str(word) {
        Ok(value) => headers.insert(name, value),
        Err(_) => headers.remove(name),
    };
}

/// The attempt's number from [`ATTEMPT_COUNT`]: a whole number from 1. Any other value counts as
/// absent.
#[must_use]
pub fn attempt_count(headers: &HeaderMap) -> Option<u32> {
    let count = digits(only(headers, &ATTEMPT_COUNT)?)?;
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// Sets [`ATTEMPT_COUNT`], replacing an existing value.
pub fn set_attempt_count(headers: &mut HeaderMap, attempt: u32) {
    headers.insert(ATTEMPT_COUNT, attempt.into());
}

/// How long the client waits for a response, from [`EXPECTED_TIMEOUT`]. 0, which means no limit to
/// Envoy, and invalid values count as absent.
#[must_use]
pub fn expected_timeout(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = digits(only(headers, &EXPECTED_TIMEOUT)?)?;
    (milliseconds > 0).then_some(Duration::from_millis(milliseconds))
}

/// Sets [`EXPECTED_TIMEOUT`], replacing an existing value; at least one millisecond, because 0
/// means no limit.
pub fn set_expected_timeout(headers: &mut HeaderMap, left: Duration) {
    let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    headers.insert(EXPECTED_TIMEOUT, milliseconds.max(1).into());
}

/// Why the attempt is sent, from [`RETRY_REASON`]: the name of a reason, at most 64 letters,
/// digits, `_`, `-` and `.`. Any other value counts as absent.
#[must_use]
pub fn retry_reason(headers: &HeaderMap) -> Option<&str> {
    word(headers, &RETRY_REASON)
}

/// Sets [`RETRY_REASON`], replacing an existing value.
pub fn set_retry_reason(headers: &mut HeaderMap, reason: &str) {
    set_word(headers, RETRY_REASON, reason);
}

/// Why the call must not be retried, from [`DO_NOT_RETRY`]: `Some` if the header is present, empty
/// if its value is not a token.
#[must_use]
pub fn do_not_retry(headers: &HeaderMap) -> Option<&str> {
    let is_there = headers.contains_key(DO_NOT_RETRY);
    is_there.then(|| word(headers, &DO_NOT_RETRY).unwrap_or_default())
}

/// Sets [`DO_NOT_RETRY`], replacing an existing value. For a service that knows that its response
/// must not be retried.
pub fn set_do_not_retry(headers: &mut HeaderMap, why: &str) {
    set_word(
        headers,
        DO_NOT_RETRY,
        if why.is_empty() { "yes" } else { why },
    );
}
