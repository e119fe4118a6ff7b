//! The values of flags: files, headers, times and rates.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::call::document::Fault;

/// The bytes of a file, or of standard input for `-`.
fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    crate::input::read(path).map_err(|error| Fault::new(path.display().to_string(), error))
}

pub(super) fn text_file(path: &Path) -> Result<String, Fault> {
    String::from_utf8(read(path)?).map_err(|error| Fault::new(path.display().to_string(), error))
}

/// The bytes of a payload: text, or those of `@FILE`.
pub(super) fn bytes(payload: &str) -> Result<Vec<u8>, Fault> {
    match payload.strip_prefix('@') {
        Some(path) => read(Path::new(path)),
        None => Ok(payload.as_bytes().to_vec()),
    }
}

/// Headers by name, each with all its values.
pub(super) fn headers(lines: &[String]) -> Result<Value, Fault> {
    let mut headers: Map<String, Value> = Map::new();
    for (nth, line) in (1..).zip(lines) {
        let Some((name, value)) = line.split_once(':') else {
            // The line is not repeated: it may contain a secret.
            let fault = format!("number {nth} has no colon: write it as name: value");
            return Err(Fault::new("--header", fault));
        };
        let values = headers
            .entry(name.trim().to_ascii_lowercase())
            .or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(value.trim().into());
        }
    }
    Ok(headers.into())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
    units
        .iter()
        .find_map(|(unit, seconds)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Duration::try_from_secs_f64(number * seconds).ok()
        })
        .ok_or_else(|| format!("{text:?} is not a time like 2s, 300ms or 1m"))
}

/// A time in which something can happen.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    match time.is_zero() {
        true => Err("must be longer than nothing".to_owned()),
        false => Ok(time),
    }
}

/// A number of calls per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|rate| (1e-3..=1e6).contains(rate))
        .ok_or_else(|| {
            format!("{text:?} is not a number of calls per second from 0.001 to 1000000")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["2", "-1s", "soon", "", "ms"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_a_positive_number_of_calls_per_second() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "2000000", "1/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_given_twice_has_two_values() {
        let lines = ["X-A: 1".to_owned(), "x-a:2".to_owned()];
        assert_eq!(headers(&lines).unwrap(), json!({"x-a": ["1", "2"]}));
        assert!(headers(&["none".to_owned()]).is_err());
    }
}
