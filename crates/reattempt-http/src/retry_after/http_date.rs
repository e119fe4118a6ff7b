//! Dates of HTTP, in the three forms that a recipient accepts (RFC 9110, section 5.6.7).

use std::time::{SystemTime, UNIX_EPOCH};

use crate::calendar::{days, number, second_of_day};

/// From the weekday of 1970-01-01 on.
const WEEKDAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];
const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
    *b"Nov", *b"Dec",
];

/// Seconds from 1970 to this date, negative before it.
pub(super) fn seconds(text: &[u8], now: fn() -> SystemTime) -> Option<i64> {
    let weekday = text.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let (weekday, rest) = text.split_at_checked(weekday)?;
    let (is_short, day, month, year, time) = match *rest {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [
            b',',
            b' ',
            d1,
            d2,
            b' ',
            m1,
            m2,
            m3,
            b' ',
            y1,
            y2,
            y3,
            y4,
            b' ',
            ref time @ ..,
            b' ',
            b'G',
            b'M',
            b'T',
        ] => (
            true,
            [d1, d2],
            [m1, m2, m3],
            number(&[y1, y2, y3, y4])?,
            time,
        ),
        // Sunday, 06-Nov-94 08:49:37 GMT
        [
            b',',
            b' ',
            d1,
            d2,
            b'-',
            m1,
            m2,
            m3,
            b'-',
            y1,
            y2,
            b' ',
            ref time @ ..,
            b' ',
            b'G',
            b'M',
            b'T',
        ] => {
            let year = four_digits(number(&[y1, y2])?, now());
            (false, [d1, d2], [m1, m2, m3], year, time)
        }
        // Sun Nov  6 08:49:37 1994
        [
            b' ',
            m1,
            m2,
            m3,
            b' ',
            d1,
            d2,
            b' ',
            ref time @ ..,
            b' ',
            y1,
            y2,
            y3,
            y4,
        ] => {
            let d1 = if d1 == b' ' { b'0' } else { d1 };
            (
                true,
                [d1, d2],
                [m1, m2, m3],
                number(&[y1, y2, y3, y4])?,
                time,
            )
        }
        _ => return None,
    };
    let month = MONTHS.iter().zip(1..).find(|(name, _)| **name == month)?.1;
    let days = days(year, month, number(&day)?)?;
    let name = WEEKDAYS[days.rem_euclid(7) as usize].as_bytes();
    let name = if is_short { &name[..3] } else { name };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *time else {
        return None;
    };
    let second = second_of_day(number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?)?;
    (weekday == name).then_some(days * 24 * 60 * 60 + second)
}

/// The latest year with these two digits that is at most 50 years after the clock's.
fn four_digits(two: i64, now: SystemTime) -> i64 {
    const YEAR: u64 = 31_556_952;
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let years = i64::try_from(since_1970.as_secs() / YEAR).map_or(8000, |years| years.min(8000));
    let latest = 1970 + years + 50;
    latest - (latest - two).rem_euclid(100)
}
