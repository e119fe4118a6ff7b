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
    let seconds = http_date::seconds(text, now)?;
    let from_1970 = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 {
        UNIX_EPOCH.checked_sub(from_1970)
    } else {
        UNIX_EPOCH.checked_add(from_1970)
    };
    // Only a date of the far past can be out of the clock's range.
    Some(at.map_or(Duration::ZERO, |at| until(at, now)))
}

/// The time until this instant.
pub(super) fn until(at: SystemTime, now: fn() -> SystemTime) -> Duration {
    at.duration_since(now()).unwrap_or_default()
}
