//! Values that several fields have: times, bytes, lists of texts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// A time in milliseconds, possibly fractional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) Duration);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        match Duration::try_from_secs_f64(number / 1000.0) {
            Ok(time) => Ok(Self(time)),
            // More than a duration can hold.
            Err(_) if number > 0.0 => Ok(Self(Duration::MAX)),
            Err(_) => Err(D::Error::custom(
                "must be a number of milliseconds that is not negative",
            )),
        }
    }
}

/// A whole number, also written with an exponent or a fraction of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) u64);

impl Whole {
    /// 2⁶⁴, from which on a float is too large.
    const END: f64 = 18_446_744_073_709_551_616.0;

    pub(crate) fn of(number: &Number) -> Option<Self> {
        let whole = || {
            let float = number.as_f64()?;
            let is_whole = float.fract() == 0.0 && (0.0..Self::END).contains(&float);
            is_whole.then_some(float as u64)
        };
        number.as_u64().or_else(whole).map(Self)
    }

    /// Of a smaller type, cut to its largest value.
    pub(crate) fn cut<T: TryFrom<u64>>(self, most: T) -> T {
        T::try_from(self.0).unwrap_or(most)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Self::of(&Number::deserialize(deserializer)?);
        whole.ok_or_else(|| D::Error::custom("must be a whole number that is not negative"))
    }
}

/// Bytes, encoded as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Self(bytes.into())),
            Err(error) => Err(D::Error::custom(format!("is not base64: {error}"))),
        }
    }
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// One value or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}
