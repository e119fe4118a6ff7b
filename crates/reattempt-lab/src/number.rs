//! Numbers of a document.

use reattempt::config::{Json, Place, integer, wrong};

/// The longest time that anything takes, in nanoseconds: some 31 years.
const LONGEST: f64 = 1e18;

/// Milliseconds in whole nanoseconds; a negative time is none, one that is too long is cut.
pub(crate) fn nanos(ms: f64) -> u64 {
    (ms * 1e6).round().clamp(0.0, LONGEST) as u64
}

/// A number within these bounds, both included.
pub(crate) fn number(
    place: &mut Place<'_>,
    json: Json<'_>,
    must: &str,
    least: f64,
    most: f64,
) -> Option<f64> {
    let number = json.as_number().and_then(|text| text.parse::<f64>().ok());
    match number.filter(|number| (least..=most).contains(number)) {
        // A negative zero is a zero: what is divided by it must not become negative.
        Some(number) => Some(number + 0.0),
        None => wrong(place, must, json),
    }
}

/// A number above zero.
pub(crate) fn above_zero(place: &mut Place<'_>, json: Json<'_>) -> Option<f64> {
    number(place, json, "a number from 0.000001 to 1e9", 1e-6, 1e9)
}

/// Milliseconds, up to a billion.
pub(crate) fn millis(place: &mut Place<'_>, json: Json<'_>) -> Option<f64> {
    number(place, json, "milliseconds from 0 to 1e9", 0.0, 1e9)
}

pub(crate) fn millis_as_nanos(place: &mut Place<'_>, json: Json<'_>) -> Option<u64> {
    millis(place, json).map(nanos)
}

/// Seconds in nanoseconds, up to a million seconds.
pub(crate) fn seconds(place: &mut Place<'_>, json: Json<'_>) -> Option<u64> {
    let seconds = number(place, json, "seconds from 0 to 1e6", 0.0, 1e6)?;
    Some((seconds * 1e9).round() as u64)
}

pub(crate) fn share(place: &mut Place<'_>, json: Json<'_>) -> Option<f64> {
    number(place, json, "a share from 0 to 1", 0.0, 1.0)
}

pub(crate) fn weight(place: &mut Place<'_>, json: Json<'_>) -> Option<f64> {
    number(place, json, "a weight from 0 to 1e9", 0.0, 1e9)
}

pub(crate) fn count(place: &mut Place<'_>, json: Json<'_>, least: u64) -> Option<u32> {
    let must = format!("a whole number from {least} to 1000000");
    let count = integer(place, json, &must, least, 1_000_000)?;
    u32::try_from(count).ok()
}
