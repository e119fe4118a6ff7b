//! Reading the members of one JSON object: each at most once, unknown ones with a warning.

use std::collections::HashSet;

use super::fault::Faults;
use super::json::Json;

/// The members of an object that are known by these names.
pub(super) struct Members<'j> {
    members: &'j [(String, Json)],
}

impl<'j> Members<'j> {
    /// Notes a fault unless it is an object; members twice are faults, unknown members warnings (A21).
    pub(super) fn of(faults: &mut Faults<'_>, json: &'j Json, known: &[&str]) -> Option<Self> {
        let Json::Object(members) = json else {
            faults.wrong(&format!("must be an object, got {}", json.describe()));
            return None;
        };
        // A set, because a text of a megabyte has room for a hundred thousand members.
        let mut seen = HashSet::with_capacity(members.len());
        for (name, _) in members {
            if !seen.insert(name.as_str()) {
                faults.field(name).wrong("is there twice");
            } else if !known.contains(&name.as_str()) {
                faults.field(name).warn("is not known and has no effect");
            }
        }
        Some(Self { members })
    }

    /// The member; `null` counts as absent, as in every proto3 message.
    pub(super) fn get(&self, name: &str) -> Option<&'j Json> {
        let member = self.members.iter().find(|(known, _)| known == name);
        member
            .map(|(_, json)| json)
            .filter(|json| **json != Json::Null)
    }

    /// The member, read by `read` at its own path.
    pub(super) fn optional<T>(
        &self,
        faults: &mut Faults<'_>,
        name: &str,
        read: impl FnOnce(&mut Faults<'_>, &'j Json) -> Option<T>,
    ) -> Option<T> {
        let json = self.get(name)?;
        read(&mut faults.field(name), json)
    }

    /// The same; its absence is a fault.
    pub(super) fn required<T>(
        &self,
        faults: &mut Faults<'_>,
        name: &str,
        must: &str,
        read: impl FnOnce(&mut Faults<'_>, &'j Json) -> Option<T>,
    ) -> Option<T> {
        if self.get(name).is_none() {
            faults
                .field(name)
                .wrong(&format!("is missing: {must} is needed"));
        }
        self.optional(faults, name, read)
    }
}
