//! Numbers and dates in header values.

use std::time::{Duration, SystemTime};

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
    let text = std::str::from_utf8(text).ok()?;
    match httpdate::parse_http_date(text) {
        Ok(date) => Some(date.duration_since(now()).unwrap_or_default()),
        Err(_) => is_before_1970(text).then_some(Duration::ZERO),
    }
}

/// Whether text that the date parser rejects is a date before 1970: the parser knows none. The
/// Gregorian calendar repeats every 400 years, including weekdays, and so every 2000.
fn is_before_1970(text: &str) -> bool {
    // The position of the year in the two formats with a four-digit year.
    let at = if text.ends_with(" GMT") { 12 } else { 20 };
    let year = text.get(at..at + 4);
    let Some(year) = year.and_then(|year| digits(year.as_bytes())) else {
        return false;
    };
    let later = format!("{}{}{}", &text[..at], year + 2000, &text[at + 4..]);
    httpdate::parse_http_date(&later).is_ok()
}
