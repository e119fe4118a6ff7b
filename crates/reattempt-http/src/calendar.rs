//! Dates and times of day, as headers state them.

/// Days from 1970-01-01 to this day, negative before it; `None` if there is no such day.
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // Years start in March, so that a leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    (1..=last)
        .contains(&day)
        .then(|| 365 * year + leap_days + day_of_year - 719_468)
}

/// The second of the day; leap seconds exist.
pub(crate) fn second_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(hour * 3600 + minute * 60 + second)
}

/// A number of two or four digits.
pub(crate) fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = digit.is_ascii_digit().then_some(i64::from(digit & 0xf))?;
        Some(number * 10 + digit)
    })
}
