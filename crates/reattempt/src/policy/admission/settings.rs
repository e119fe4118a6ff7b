//! Admission in a document.

use std::time::Duration;

use super::{Admission, check};
use crate::config::{self, Json, Members, Place};

/// `true`, or an object with `multiplier` (a number, 2 by default) and `window` (a duration, `"5s"`
/// by default).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    multiplier: u32,
    window: Duration,
}

impl AdmissionSettings {
    /// The members of the object.
    pub const MEMBERS: &[&str] = &["multiplier", "window"];

    /// Reads them. `false` is no settings, and no fault.
    pub fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let mut read = Self {
            multiplier: Admission::DEFAULT_MULTIPLIER,
            window: Admission::DEFAULT_WINDOW,
        };
        if let Some(on) = json.as_bool() {
            return on.then_some(read);
        }
        let members = Members::of(place, json, Self::MEMBERS)?;
        let multiplier = members.optional(place, "multiplier", |place, json| {
            let milli = config::thousandths(place, json)?;
            match check(milli, read.window) {
                Ok(()) => Some(milli),
                Err(_) => config::wrong(place, "a number from 1.1 to 100", json),
            }
        });
        let window = members.optional(place, "window", |place, json| {
            let window = config::duration(place, json, true)?;
            match check(read.multiplier, window) {
                Ok(()) => Some(window),
                Err(fault) => place.refuse(fault.to_string()),
            }
        });
        read.multiplier = multiplier.unwrap_or(read.multiplier);
        read.window = window.unwrap_or(read.window);
        Some(read)
    }

    /// Admission with these settings.
    #[must_use]
    pub fn make(self) -> Admission {
        Admission::of(self.multiplier, self.window)
    }

    /// Changes the settings of this one.
    pub fn apply(self, admission: &Admission) {
        // They were checked when they were read.
        let _ = admission.reconfigure(self.multiplier, self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Form;

    #[test]
    fn each_member_is_read_as_itself() {
        let text = r#"{"multiplier": 3.5, "window": "7s"}"#;
        let read = Form::new("the admission").read(text, AdmissionSettings::read);
        let expected = AdmissionSettings {
            multiplier: 3500,
            window: Duration::from_secs(7),
        };
        assert_eq!(read.unwrap().0, expected);
    }
}
