//! `RateLimit-Reset` (IETF draft "RateLimit header fields for HTTP", up to version 06; later ones
//! have one field `RateLimit`, which is not read) and its
//! predecessor `X-RateLimit-Reset`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use super::value::{self, digits, until_date};

static REMAINING: [HeaderName; 2] = [
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-remaining"),
];

/// From here on a number is a Unix time: as a delay it would be 31 years.
const SECONDS_OF_A_MOMENT: u64 = 1_000_000_000;
/// The same in milliseconds.
const MILLIS_OF_A_MOMENT: u64 = 1_000_000_000_000;
/// A larger number is not a time, but out of range.
const NO_MOMENT: u64 = 1_000_000_000_000_000;

/// Whether the response failed because of its limits, which many servers send with every response.
/// `only_exhausted`: only if they say so, whatever the status from 300 up is. A success states
/// them too, also one that a route retries.
pub(super) fn ran_out(status: u16, headers: &HeaderMap, only_exhausted: bool) -> bool {
    match (status, remaining(headers)) {
        (..300, _) => false,
        (_, Some(0)) => true,
        (429, _) | (503, None) => !only_exhausted,
        (_, None | Some(_)) => false,
    }
}

/// How many more requests the server allows before the limit is renewed.
pub(crate) fn remaining(headers: &HeaderMap) -> Option<u64> {
    let values = REMAINING.iter().flat_map(|name| headers.get_all(name));
    values
        .filter_map(|value| digits(value.as_bytes().trim_ascii()))
        .min()
}

/// The time until a reset. One in the past counts as absent: the server says that the limit still
/// holds, so one of the two clocks is wrong.
pub(super) fn until(text: &[u8], now: fn() -> SystemTime) -> Option<Duration> {
    let Some(number) = digits(text) else {
        return until_date(text, now).filter(is_ahead);
    };
    let since_1970 = match number {
        SECONDS_OF_A_MOMENT..MILLIS_OF_A_MOMENT => Duration::from_secs(number),
        MILLIS_OF_A_MOMENT..NO_MOMENT => Duration::from_millis(number),
        _ => return Some(Duration::from_secs(number)),
    };
    Some(value::until(UNIX_EPOCH.checked_add(since_1970)?, now)).filter(is_ahead)
}

fn is_ahead(delay: &Duration) -> bool {
    !delay.is_zero()
}
