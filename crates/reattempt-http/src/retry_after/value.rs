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

/// `1*DIGIT "." 1*DIGIT`, as some servers send it, in units of a thousandth (`places` 0) or of one
/// (`places` 3) of a second; rounded up to the millisecond, and saturating.
pub(super) fn decimal(text: &[u8], places: usize) -> Option<Duration> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (whole, part) = (digits(&text[..point])?, &text[point + 1..]);
    digits(part)?;
    let mut millis = whole;
    for place in 0..places {
        let digit = part.get(place).map_or(0, |digit| u64::from(digit & 0xf));
        millis = millis.saturating_mul(10).saturating_add(digit);
    }
    let is_more = part.iter().skip(places).any(|digit| *digit != b'0');
    Some(Duration::from_millis(millis.saturating_add(is_more.into())))
}

/// The time until this HTTP date.
pub(super) fn until_date(text: &[u8], now: fn() -> SystemTime) -> Option<Duration> {
    let seconds = http_date::seconds(text, now)?;
    let from_1970 = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 {
        UNIX_EPOCH.checked_sub(from_1970)
    } else {
        UNIX_EPOCH.checked_add(from_1970)
    };
    // Only a date of the far past can be out of the clock's range.
    until(at?, now)
}

/// The time until this instant. `None` if it has passed: the server asks for rest, or says that a
/// limit still holds, so one of the two clocks is wrong.
pub(super) fn until(at: SystemTime, now: fn() -> SystemTime) -> Option<Duration> {
    let left = at.duration_since(now()).ok()?;
    (!left.is_zero()).then_some(left)
}
