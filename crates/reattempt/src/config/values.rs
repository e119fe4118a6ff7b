//! Parsers of single values: each returns the value, or records a fault at its place and returns
//! `None`.

use std::borrow::Cow;
use std::time::Duration;

use super::{Decimal, Json, Place};

/// Records what the value `must` be; always `None`.
pub fn wrong<T>(place: &mut Place<'_>, must: &str, got: Json<'_>) -> Option<T> {
    place.refuse(format!("must be {must}, got {}", got.describe()))
}

/// A whole number from `least` to `most`; a larger one is a fault, unless `most` is `u64::MAX`,
/// which stands for all larger ones then.
pub fn integer(
    place: &mut Place<'_>,
    json: Json<'_>,
    must: &str,
    least: u64,
    most: u64,
) -> Option<u64> {
    if let Some(text) = json.as_number() {
        let decimal = Decimal::of(text);
        let value = decimal.scaled(0);
        let negative = decimal.is_negative() && value > 0;
        if decimal.is_whole() && !negative && (least..=most).contains(&value) {
            return Some(value);
        }
    }
    wrong(place, must, json)
}

/// A factor greater than zero. One that a 64-bit float rounds to zero or infinity is a fault.
pub fn factor(place: &mut Place<'_>, json: Json<'_>) -> Option<f64> {
    match json.as_number() {
        Some(text) if Decimal::of(text).is_positive() => {
            let value = text.parse::<f64>().ok();
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .or_else(|| wrong(place, "a number that a 64-bit float can hold", json))
        }
        _ => wrong(place, "a number greater than 0", json),
    }
}

/// A number greater than zero in thousandths; decimal places beyond three are dropped (A6,
/// Validation of retryThrottling).
pub fn thousandths(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    if let Some(text) = json.as_number() {
        let decimal = Decimal::of(text);
        let milli = decimal.scaled(3);
        if decimal.is_positive() && milli > 0 {
            return Some(u32::try_from(milli).unwrap_or(u32::MAX));
        }
    }
    wrong(
        place,
        "a number of at least 0.001 (decimal places beyond 3 are dropped)",
        json,
    )
}

/// A number from 0.1 to `most` in tenths, exact: more decimal places are a fault.
pub fn tenths(place: &mut Place<'_>, json: Json<'_>, must: &str, most: u32) -> Option<u32> {
    if let Some(text) = json.as_number() {
        let decimal = Decimal::of(text);
        let tenths = u32::try_from(decimal.scaled(1)).unwrap_or(u32::MAX);
        let exact = decimal.is_positive() && decimal.is_whole_at(1);
        if exact && tenths > 0 && tenths <= most.saturating_mul(10) {
            return Some(tenths);
        }
    }
    wrong(place, must, json)
}

/// The maximum of proto3's JSON form of a Duration, about 10 000 years.
const MOST_SECONDS: u64 = 315_576_000_000;

/// A proto3 Duration, exact to the nanosecond; `None` if the text is invalid. The flag is true if
/// it is negative.
fn proto_duration(text: &str) -> Option<(bool, Duration)> {
    let number = text.strip_suffix('s')?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // "The numeric portion must be a valid JSON number": no leading zeros, digits on both sides of
    // the point.
    if !all_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let nanos = match fraction {
        None => 0,
        Some(fraction) if all_digits(fraction) && fraction.len() <= 9 => {
            let nanos: u32 = fraction.parse().ok()?;
            nanos * 10_u32.pow(9 - u32::try_from(fraction.len()).ok()?)
        }
        Some(_) => return None,
    };
    let within = seconds < MOST_SECONDS || (seconds == MOST_SECONDS && nanos == 0);
    within.then(|| (negative, Duration::new(seconds, nanos)))
}

/// A duration of at least zero, or (with `above_zero`) greater than zero.
pub fn duration(place: &mut Place<'_>, json: Json<'_>, above_zero: bool) -> Option<Duration> {
    let must = if above_zero {
        "a duration greater than 0 such as \"0.1s\" (at most nine decimal places)"
    } else {
        "a duration such as \"0.1s\" (at most nine decimal places)"
    };
    if let Some(text) = json.as_str() {
        if let Some((negative, duration)) = proto_duration(&text) {
            let least = if above_zero { 1 } else { 0 };
            let fits = !negative || duration.is_zero();
            if fits && duration.as_nanos() >= least {
                return Some(duration);
            }
        }
    }
    wrong(place, must, json)
}

/// `true` or `false`.
pub fn boolean(place: &mut Place<'_>, json: Json<'_>) -> Option<bool> {
    json.as_bool()
        .or_else(|| wrong(place, "true or false", json))
}

/// A string.
pub fn string<'j>(place: &mut Place<'_>, json: Json<'j>) -> Option<Cow<'j, str>> {
    json.as_str().or_else(|| wrong(place, "a string", json))
}

/// One of these words.
pub fn one_of<T: Copy>(place: &mut Place<'_>, json: Json<'_>, words: &[(&str, T)]) -> Option<T> {
    if let Some(text) = json.as_str() {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
    }
    let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    wrong(place, &words.join(" or "), json)
}

/// An array, each item parsed at its own path; `None` if any item is invalid.
pub fn array<'j, T>(
    place: &mut Place<'_>,
    json: Json<'j>,
    of: &str,
    mut read: impl FnMut(&mut Place<'_>, Json<'j>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = json.items() else {
        return wrong(place, &format!("an array of {of}"), json);
    };
    let items: Vec<Option<T>> = items
        .into_iter()
        .enumerate()
        .map(|(at, item)| read(&mut place.index(at), item))
        .collect();
    items.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_to_the_nanosecond_and_strict() {
        let ns = |text: &str| proto_duration(text).map(|(_, d)| d.as_nanos());
        assert_eq!(ns("0.000000001s"), Some(1));
        assert_eq!(ns("1.5s"), Some(1_500_000_000));
        assert_eq!(ns("315576000000s"), Some(315_576_000_000_000_000_000));
        assert_eq!(proto_duration("-1s"), Some((true, Duration::from_secs(1))));
        for junk in [
            "1",
            "s",
            "",
            ".5s",
            "1.s",
            "+1s",
            " 1s",
            "1 s",
            "1s ",
            "--1s",
            "1.-5s",
            "01s",
            "1e3s",
            "0.0000000001s",
            "315576000001s",
            "315576000000.1s",
            "1.5.5s",
            "0x1s",
            "NaNs",
        ] {
            assert_eq!(proto_duration(junk), None, "{junk:?}");
        }
    }
}
