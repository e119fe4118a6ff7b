//! Values that several fields have: times, bytes, lists of texts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

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
