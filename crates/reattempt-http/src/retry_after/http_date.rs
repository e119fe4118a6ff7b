//! Dates of HTTP, in the three forms that a recipient accepts (RFC 9110, section 5.6.7).

use super::value::digits;
use crate::calendar::days;

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
pub(super) fn seconds(text: &[u8]) -> Option<i64> {
    let weekday = text.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let (weekday, rest) = text.split_at_checked(weekday)?;
    let (day, month, year, time) = match *rest {
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
        ] => ([d1, d2], [m1, m2, m3], number(&[y1, y2, y3, y4])?, time),
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
            let century = if y1 < b'7' { 2000 } else { 1900 };
            ([d1, d2], [m1, m2, m3], century + number(&[y1, y2])?, time)
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
            ([d1, d2], [m1, m2, m3], number(&[y1, y2, y3, y4])?, time)
        }
        _ => return None,
    };
    let month = MONTHS.iter().zip(1..).find(|(name, _)| **name == month)?.1;
    let days = days(year, month, number(&day)?)?;
    let name = WEEKDAYS[days.rem_euclid(7) as usize].as_bytes();
    let is_right = weekday == name || weekday == &name[..3];
    is_right.then_some(days * 24 * 60 * 60 + second_of_day(time)?)
}

/// `08:49:37`; leap seconds exist.
fn second_of_day(time: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *time else {
        return None;
    };
    let (hour, minute) = (number(&[h1, h2])?, number(&[m1, m2])?);
    let second = number(&[s1, s2])?;
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(hour * 3600 + minute * 60 + second)
}

fn number(text: &[u8]) -> Option<i64> {
    digits(text)?.try_into().ok()
}
