//! A governor in a document.

use super::Governor;
use super::word::{MOST_BURST, Word};
use crate::config::{self, Json, Members, Place};

/// `true`, or an object with `burst` (an integer, 20 by default) and `ratio` (a number, 0.7 by
/// default).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorSettings {
    burst: u32,
    ratio: u32,
}

impl GovernorSettings {
    /// The members of the object.
    pub const MEMBERS: &[&str] = &["burst", "ratio"];

    /// Reads them. `false` is no settings, and no fault.
    pub fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let mut read = Self {
            burst: Governor::DEFAULT_BURST,
            ratio: Governor::DEFAULT_RATIO,
        };
        if let Some(on) = json.as_bool() {
            return on.then_some(read);
        }
        let members = Members::of(place, json, Self::MEMBERS)?;
        let burst = members.optional(place, "burst", |place, json| {
            let most = MOST_BURST;
            let must = format!("an integer from 1 to {most}");
            config::integer(place, json, &must, 1, most.into())
        });
        let ratio = members.optional(place, "ratio", |place, json| {
            let ratio = config::thousandths(place, json)?;
            match Word::checked(1, ratio) {
                Ok(_) => Some(ratio),
                Err(_) => config::wrong(place, "a number from 0.001 to 1", json),
            }
        });
        read.burst = burst.map_or(Some(read.burst), |burst| u32::try_from(burst).ok())?;
        read.ratio = ratio.unwrap_or(read.ratio);
        Some(read)
    }

    /// A governor with these settings.
    #[must_use]
    pub fn make(self) -> Governor {
        Governor::of(Word::full(self.burst, self.ratio))
    }

    /// Changes the configuration of this one.
    pub fn apply(self, governor: &Governor) {
        // It was checked when it was read.
        let _ = governor.reconfigure(self.burst, self.ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Form;

    #[test]
    fn each_member_is_read_as_itself() {
        let text = r#"{"burst": 30, "ratio": 0.25}"#;
        let read = Form::new("the governor").read(text, GovernorSettings::read);
        let (settings, _) = read.unwrap();
        let (burst, ratio) = (30, 250);
        assert_eq!(settings, GovernorSettings { burst, ratio });
        assert_eq!(settings.make().load(), Word::full(burst, ratio));
    }
}
