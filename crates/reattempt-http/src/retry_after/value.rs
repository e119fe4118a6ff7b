//! Numbers and dates in header values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::http_date;

/// `1*DIGIT`, saturating.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xf))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// The time until this HTTP date; a date in the past means now.
pub(super) fn until_date(text: &[u8], now: fn() -> SystemTime) -> Option<Duration> {
    let seconds = http_date::seconds(text)?.try_into().unwrap_or(0);
    Some(until(Duration::from_secs(seconds), now))
}

/// The time until this instant.
pub(super) fn until(since_1970: Duration, now: fn() -> SystemTime) -> Duration {
    let now = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.saturating_sub(now)
}
