//! `RateLimit-Reset` (IETF draft "RateLimit header fields for HTTP", up to version 07) and its
//! predecessor `X-RateLimit-Reset`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use super::{Word, digits, until_date};

static RESET: [HeaderName; 2] = [
    HeaderName::from_static("ratelimit-reset"),
    HeaderName::from_static("x-ratelimit-reset"),
];
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

/// When the limit that this response ran into is renewed.
pub(super) fn reset(status: u16, headers: &HeaderMap, now: fn() -> SystemTime) -> Word {
    if !ran_into_it(status, headers) {
        return Word::Nothing;
    }
    let [draft, before] = &RESET;
    let read = |text: &str| until(text, now);
    Word::of(headers, draft, read).or(|| Word::of(headers, before, read))
}

/// Servers send their limits with every response: whether this one failed because of them.
fn ran_into_it(status: u16, headers: &HeaderMap) -> bool {
    match (status, remaining(headers)) {
        (429, _) | (_, Some(0)) | (503, None) => true,
        (_, None | Some(_)) => false,
    }
}

/// How many more requests the server allows before the limit is renewed.
pub(crate) fn remaining(headers: &HeaderMap) -> Option<u64> {
    let values = REMAINING.iter().flat_map(|name| headers.get_all(name));
    values
        .filter_map(|value| digits(value.to_str().ok()?.trim()))
        .min()
}

fn until(text: &str, now: fn() -> SystemTime) -> Option<Duration> {
    let Some(number) = digits(text) else {
        return until_date(text, now);
    };
    let since_1970 = match number {
        SECONDS_OF_A_MOMENT..MILLIS_OF_A_MOMENT => Duration::from_secs(number),
        MILLIS_OF_A_MOMENT..NO_MOMENT => Duration::from_millis(number),
        _ => return Some(Duration::from_secs(number)),
    };
    let now = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since_1970.saturating_sub(now))
}
