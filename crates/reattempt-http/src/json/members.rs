//! Reading the members of one JSON object: each at most once, unknown ones with a warning.

use std::collections::HashSet;

use super::{Json, Place};

/// The message for an unknown name. Most are spelled in the wrong case, which is significant.
fn unknown(name: &str, known: &[&str]) -> String {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        letters.map(|byte| byte.to_ascii_lowercase())
    }
    let meant = known.iter().find(|known| letters(known).eq(letters(name)));
    match meant {
        Some(meant) => format!("is not known and has no effect: write {meant}"),
        None => "is not known and has no effect".to_owned(),
    }
}

/// The members of one object.
#[derive(Clone, Copy, Debug)]
pub struct Members<'j> {
    members: &'j [(String, Json)],
}

impl<'j> Members<'j> {
    /// Records a fault unless it is an object; duplicate members are faults, unknown members
    /// warnings (A21).
    pub fn of(place: &mut Place<'_>, json: &'j Json, known: &[&str]) -> Option<Self> {
        let members = Self::any(place, json)?;
        for (name, _) in members.members {
            if !known.contains(&name.as_str()) {
                place.field(name).warn(&unknown(name, known));
            }
        }
        Some(members)
    }

    /// The same for an object with arbitrary member names.
    pub fn any(place: &mut Place<'_>, json: &'j Json) -> Option<Self> {
        let Json::Object(members) = json else {
            place.wrong(&format!("must be an object, got {}", json.describe()));
            return None;
        };
        let mut seen = HashSet::new();
        for (name, _) in members {
            if !seen.insert(name) {
                place.field(name).wrong("is there twice");
            }
        }
        Some(Self { members })
    }

    /// All members, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&'j str, &'j Json)> + use<'j> {
        self.members
            .iter()
            .map(|(name, json)| (name.as_str(), json))
    }

    /// The member; `null` counts as absent, as in every proto3 message.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'j Json> {
        let member = self.members.iter().find(|(known, _)| known == name);
        member
            .map(|(_, json)| json)
            .filter(|json| **json != Json::Null)
    }

    /// The member, parsed by `read` at its own path.
    pub fn optional<T>(
        &self,
        place: &mut Place<'_>,
        name: &str,
        read: impl FnOnce(&mut Place<'_>, &'j Json) -> Option<T>,
    ) -> Option<T> {
        let json = self.get(name)?;
        read(&mut place.field(name), json)
    }

    /// The same; its absence is a fault.
    pub fn required<T>(
        &self,
        place: &mut Place<'_>,
        name: &str,
        must: &str,
        read: impl FnOnce(&mut Place<'_>, &'j Json) -> Option<T>,
    ) -> Option<T> {
        if self.get(name).is_none() {
            place
                .field(name)
                .wrong(&format!("is missing: {must} is needed"));
        }
        self.optional(place, name, read)
    }
}
