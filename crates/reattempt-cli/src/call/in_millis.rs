//! Durations in answer lines.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A duration in milliseconds, to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct InMillis(pub(crate) Duration);

impl InMillis {
    pub(crate) fn value(self) -> f64 {
        (self.0.as_secs_f64() * 1e6).round() / 1e3
    }
}

impl Serialize for InMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.value();
        // A whole number is written without a fraction.
        if millis.fract() == 0.0 && millis < 9e15 {
            return serializer.serialize_u64(millis as u64);
        }
        serializer.serialize_f64(millis)
    }
}
