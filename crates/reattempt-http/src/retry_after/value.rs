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

/// `1*DIGIT "." 1*DIGIT`, as some servers send it, in units of `unit` milliseconds; rounded up.
#[cold]
pub(super) fn decimal(text: &[u8], unit: f64) -> Option<Duration> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    digits(&text[..point]).and(digits(&text[point + 1..]))?;
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // As a number that is too large it saturates.
    Some(Duration::from_millis((number * unit).ceil() as u64))
}

/// The time until this HTTP date. `None` for one in the past, as for a limit's reset: the server
/// failed and asks for rest, so one of the two clocks is wrong.
pub(super) fn until_date(text: &[u8], now: fn() -> SystemTime) -> Option<Duration> {
    let seconds = http_date::seconds(text, now)?;
    let from_1970 = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 {
        UNIX_EPOCH.checked_sub(from_1970)
    } else {
        UNIX_EPOCH.checked_add(from_1970)
    };
    // Only a date of the far past can be out of the clock's range.
    Some(until(at?, now)).filter(|left| !left.is_zero())
}

/// The time until this instant.
pub(super) fn until(at: SystemTime, now: fn() -> SystemTime) -> Duration {
    at.duration_since(now()).unwrap_or_default()
}
