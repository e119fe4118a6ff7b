//! The values of a service config: exact numbers, durations, sets of codes.

use std::time::Duration;

use crate::{Code, CodeSet};

use super::fault::Faults;
use super::json::Json;

/// A JSON number, taken apart without loss: `0.digits × 10^exponent`, digits without zeros at either end.
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// From the text of a JSON number, which the reader has checked.
    fn of(text: &str) -> Self {
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|b| b - b'0')
            .collect();
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        // A power past any number that matters is cut to one that still is.
        let sign = if power.starts_with('-') { -1 } else { 1 };
        let power = power
            .trim_start_matches(['+', '-'])
            .parse::<i64>()
            .unwrap_or(i64::from(i32::MAX))
            .min(i64::from(i32::MAX));
        // Texts are far shorter than 2^62 bytes.
        let point = i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(leading).unwrap_or(0);
        Self {
            negative,
            digits,
            exponent: point + sign * power,
        }
    }

    fn is_positive(&self) -> bool {
        !self.negative && !self.digits.is_empty()
    }

    fn is_whole(&self) -> bool {
        self.digits.is_empty()
            || usize::try_from(self.exponent).is_ok_and(|places| places >= self.digits.len())
    }

    /// `self × 10^shift`, cut to a whole number, without its sign; saturating.
    fn scaled(&self, shift: i64) -> u64 {
        let Ok(places) = usize::try_from(self.exponent.saturating_add(shift)) else {
            return 0;
        };
        if self.digits.is_empty() {
            return 0;
        }
        // Twenty digits are past u64 already.
        let mut value = 0_u64;
        for at in 0..places.min(20) {
            let digit = self.digits.get(at).copied().unwrap_or(0);
            let Some(next) = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(digit.into()))
            else {
                return u64::MAX;
            };
            value = next;
        }
        if places > 20 { u64::MAX } else { value }
    }
}

fn wrong<T>(faults: &mut Faults<'_>, must: &str, got: &Json) -> Option<T> {
    faults.wrong(&format!("must be {must}, got {}", got.describe()));
    None
}

/// A whole number from `least` to `most`; above `most` is a fault.
pub(super) fn integer(
    faults: &mut Faults<'_>,
    json: &Json,
    must: &str,
    least: u64,
    most: u64,
) -> Option<u64> {
    if let Json::Number(text) = json {
        let decimal = Decimal::of(text);
        let value = decimal.scaled(0);
        let negative = decimal.negative && value > 0;
        if decimal.is_whole() && !negative && (least..=most).contains(&value) {
            return Some(value);
        }
    }
    wrong(faults, must, json)
}

/// A number above zero, as a factor.
pub(super) fn factor(faults: &mut Faults<'_>, json: &Json) -> Option<f64> {
    match json {
        Json::Number(text) if Decimal::of(text).is_positive() => text.parse().ok(),
        _ => wrong(faults, "a number greater than 0", json),
    }
}

/// A number above zero in thousandths; decimal places beyond three are dropped (A6, Validation of retryThrottling).
pub(super) fn thousandths(faults: &mut Faults<'_>, json: &Json) -> Option<u32> {
    if let Json::Number(text) = json {
        let decimal = Decimal::of(text);
        let milli = decimal.scaled(3);
        if decimal.is_positive() && milli > 0 {
            return Some(u32::try_from(milli).unwrap_or(u32::MAX));
        }
    }
    wrong(
        faults,
        "a number of at least 0.001 (decimal places beyond 3 are dropped)",
        json,
    )
}

/// proto3's JSON form of a Duration: the longest is about 10 000 years.
const MOST_SECONDS: u64 = 315_576_000_000;

/// A proto3 Duration, exact to the nanosecond: `None` unless the text is one. The flag says that it is negative.
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
    // "The numeric portion must be a valid JSON number": no leading zeros, digits on both sides of the point.
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

/// A duration of zero or more, or (with `above_zero`) of more than zero.
pub(super) fn duration(faults: &mut Faults<'_>, json: &Json, above_zero: bool) -> Option<Duration> {
    let must = if above_zero {
        "a duration greater than 0 such as \"0.1s\" (at most nine decimal places)"
    } else {
        "a duration such as \"0.1s\" (at most nine decimal places)"
    };
    if let Json::String(text) = json {
        if let Some((negative, duration)) = proto_duration(text) {
            let least = if above_zero { 1 } else { 0 };
            let fits = !negative || duration.is_zero();
            if fits && duration.as_nanos() >= least {
                return Some(duration);
            }
        }
    }
    wrong(faults, must, json)
}

pub(super) fn boolean(faults: &mut Faults<'_>, json: &Json) -> Option<bool> {
    match json {
        Json::Bool(value) => Some(*value),
        _ => wrong(faults, "true or false", json),
    }
}

pub(super) fn string<'j>(faults: &mut Faults<'_>, json: &'j Json) -> Option<&'j str> {
    match json {
        Json::String(text) => Some(text),
        _ => wrong(faults, "a string", json),
    }
}

/// An array of codes, by number or name in any case. OK is no failure and so no member.
pub(super) fn codes(faults: &mut Faults<'_>, json: &Json) -> Option<CodeSet> {
    const MUST: &str =
        "a gRPC status code other than OK: a number from 1 to 16 or a name such as \"UNAVAILABLE\"";
    let Json::Array(items) = json else {
        return wrong(faults, "an array of status codes", json);
    };
    let mut set = CodeSet::EMPTY;
    let mut whole = true;
    for (at, item) in items.iter().enumerate() {
        let code = match item {
            Json::String(name) => name.parse().ok(),
            Json::Number(text) => {
                let decimal = Decimal::of(text);
                let number = decimal.scaled(0).min(u64::from(u16::MAX));
                let fits = decimal.is_whole() && !decimal.negative;
                i64::try_from(number)
                    .ok()
                    .filter(|_| fits)
                    .and_then(Code::from_number)
            }
            _ => None,
        };
        match code {
            Some(code) if code != Code::Ok => set = set.with(code),
            _ => {
                whole = false;
                wrong::<()>(&mut faults.index(at), MUST, item);
            }
        }
    }
    whole.then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R8
    #[test]
    fn ratios_are_cut_at_the_third_place_exactly() {
        for (text, milli) in [
            ("0.5466", 546),
            ("0.1", 100),
            ("0.251", 251),
            ("0.253", 253),
            ("0.502", 502),
            ("0.511", 511),
            ("1e-1", 100),
            ("1", 1000),
            ("1.0", 1000),
            ("10e2", 1_000_000),
            ("0.0009e1", 9),
            ("0.0004", 0),
            ("12345678901234567890123", u64::MAX),
            ("1e999999999999999999999", u64::MAX),
            ("1e-999999999999999999999", 0),
        ] {
            assert_eq!(Decimal::of(text).scaled(3), milli, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_known_in_any_form() {
        for text in ["3", "3.0", "3e0", "30e-1", "0.3e1", "0", "-3.00"] {
            assert!(Decimal::of(text).is_whole(), "{text}");
        }
        for text in ["3.5", "1e-1", "0.001"] {
            assert!(!Decimal::of(text).is_whole(), "{text}");
        }
    }

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
