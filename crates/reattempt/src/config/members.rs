//! Reading the members of one JSON object: each at most once, unknown ones with a warning.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Json, Place};

/// Whether a name is this known one in another case, or with other separators: a limited number of
/// them, because the name stands in a message.
fn is_like(name: &str, known: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        letters.map(|byte| byte.to_ascii_lowercase())
    }
    name != known && name.len() < 2 * known.len() && letters(known).eq(letters(name))
}

/// The message for an unknown name. Most are spelled in the wrong case, which is significant.
fn unknown(name: &str, known: &[&str]) -> String {
    match known.iter().find(|known| is_like(name, known)) {
        Some(meant) => format!("is not known and has no effect: write {meant}"),
        None => "is not known and has no effect".to_owned(),
    }
}

/// The members of one object.
#[derive(Clone, Debug)]
pub struct Members<'t> {
    members: Vec<(String, Json<'t>)>,
    null_is_absent: bool,
}

impl<'t> Members<'t> {
    /// Records a fault unless it is an object; duplicate members are faults (in a
    /// [server's document](super::Form::of_server) warnings), unknown members warnings (A21).
    pub fn of(place: &mut Place<'_>, json: Json<'t>, known: &[&str]) -> Option<Self> {
        let members = Self::any(place, json)?;
        for (name, _) in members.iter() {
            if !known.contains(&name) {
                place.field(name).warn(unknown(name, known));
            }
        }
        Some(members)
    }

    /// The same for an object with arbitrary member names.
    pub fn any(place: &mut Place<'_>, json: Json<'t>) -> Option<Self> {
        let must = || format!("must be an object, got {}", json.describe());
        Self::read(place, json, |_| true, must)
    }

    /// The same with this fault for anything but an object. Of a server's document only known
    /// members are read: others have no effect, and there may be very many.
    pub fn or(place: &mut Place<'_>, json: Json<'t>, known: &[&str], wrong: &str) -> Option<Self> {
        Self::read(
            place,
            json,
            |name| known.contains(&name),
            || wrong.to_owned(),
        )
    }

    fn read(
        place: &mut Place<'_>,
        json: Json<'t>,
        known: impl Fn(&str) -> bool,
        wrong: impl FnOnce() -> String,
    ) -> Option<Self> {
        match json.members() {
            Some(Ok(members)) => {
                let of_server = place.form().of_server;
                let (mut read, mut places) = (Vec::new(), HashMap::new());
                let counts = |name: &str| !of_server || known(name);
                for (name, json) in members.into_iter().filter(|(name, _)| counts(name)) {
                    match places.entry(name.clone()) {
                        Entry::Vacant(vacant) => drop(vacant.insert(read.len())),
                        Entry::Occupied(first) if of_server => {
                            let mut place = place.field(&name);
                            place.warn("is there twice; the last one counts");
                            read[*first.get()] = (name, json);
                            continue;
                        }
                        Entry::Occupied(_) => place.field(&name).wrong("is there twice"),
                    }
                    read.push((name, json));
                }
                Some(Self {
                    members: read,
                    null_is_absent: !of_server,
                })
            }
            Some(Err(unreadable)) => place.refuse((place.form().refusal)(&unreadable)),
            None => place.refuse(wrong()),
        }
    }

    /// All members, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Json<'t>)> {
        let members = self.members.iter();
        members.map(|(name, json)| (name.as_str(), *json))
    }

    /// The member; `null` counts as absent if the [`Form`](super::Form) says so.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Json<'t>> {
        let (_, json) = self.members.iter().find(|(known, _)| known == name)?;
        Some(*json).filter(|json| !(self.null_is_absent && json.is_null()))
    }

    /// Another member whose name differs from this one only in its case or separators.
    #[must_use]
    pub fn like(&self, name: &str) -> Option<&str> {
        let mut names = self.members.iter().map(|(other, _)| other.as_str());
        names.find(|other| is_like(other, name))
    }

    /// The member, parsed by `read` at its own path.
    pub fn optional<T>(
        &self,
        place: &mut Place<'_>,
        name: &str,
        read: impl FnOnce(&mut Place<'_>, Json<'t>) -> Option<T>,
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
        read: impl FnOnce(&mut Place<'_>, Json<'t>) -> Option<T>,
    ) -> Option<T> {
        if self.get(name).is_none() {
            let like = self.like(name);
            let like = like.map(|like| format!(" (there is {like:?}: names must match exactly)"));
            let like = like.unwrap_or_default();
            place
                .field(name)
                .wrong(format!("is missing: {must} is needed{like}"));
        }
        self.optional(place, name, read)
    }
}
