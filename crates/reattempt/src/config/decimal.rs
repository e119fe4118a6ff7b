//! Numbers without loss of precision.

/// A JSON number, decomposed without loss: `0.digits × 10^exponent`, digits without zeros at either
/// end.
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Parses the text of a JSON number ([`Json::as_number`](super::Json::as_number)).
    #[must_use]
    pub fn of(text: &str) -> Self {
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .filter(u8::is_ascii_digit)
            .map(|b| b - b'0')
            .collect();
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        // An exponent beyond every relevant number is clamped to one that still is.
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

    /// Whether it is greater than zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        !self.negative && !self.digits.is_empty()
    }

    /// Whether it has no fractional part: `3`, `3.0` and `30e-1` are whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole_at(0)
    }

    /// Whether `self × 10^shift` is whole.
    #[must_use]
    pub fn is_whole_at(&self, shift: i64) -> bool {
        let places = self.exponent.saturating_add(shift);
        self.digits.is_empty()
            || usize::try_from(places).is_ok_and(|places| places >= self.digits.len())
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(&self) -> bool {
        self.negative
    }

    /// `self × 10^shift`, truncated to a whole number, without its sign; saturating.
    #[must_use]
    pub fn scaled(&self, shift: i64) -> u64 {
        let Ok(places) = usize::try_from(self.exponent.saturating_add(shift)) else {
            return 0;
        };
        if self.digits.is_empty() {
            return 0;
        }
        // Twenty digits already exceed u64.
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
}
