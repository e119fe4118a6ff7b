//! The fields of a JSON object, read one by one.

use std::collections::BTreeMap;
use std::fmt;

use reattempt::config::{Fault, Faults, Json, Members, Place};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::found::{FORM, Found};

/// The fields of one JSON object, taken one by one, so that every fault has its JSON path. `null`
/// counts as absent. A field with a fault counts as absent from then on, so that the faults of the
/// others are found too.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    /// As they were written.
    texts: BTreeMap<String, String>,
    pub(super) found: Found,
}

impl Fields {
    /// The fields of the whole document, or of an object with faults of its own.
    pub(crate) fn of(text: &[u8], path: impl Into<String>, found: Found) -> Self {
        let path = path.into();
        let mut texts = BTreeMap::new();
        let read = FORM.read(text, |place, json| {
            let wrong = format!("must be an object, got {}", kind_of(json));
            let members = Members::or(place, json, &[], &wrong)?;
            let members = members.iter();
            texts.extend(members.map(|(name, json)| (name.to_owned(), json.text().to_owned())));
            Some(())
        });
        if let Err(faults) = read {
            found.add_all(&faults, &path);
        }
        Self { path, texts, found }
    }

    /// The whole document, with these texts as its members.
    pub(crate) fn of_texts(texts: BTreeMap<String, String>) -> Self {
        Self {
            path: "$".to_owned(),
            texts,
            found: Found::default(),
        }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub(crate) fn fault(&self, name: &str, what: impl fmt::Display) -> Fault {
        Fault::new(self.path_of(name), what)
    }

    /// Records a fault of this field.
    pub(crate) fn wrong(&self, name: &str, what: impl fmt::Display) {
        self.found.add(self.fault(name, what));
    }

    /// What was made of this field; an error is recorded as its fault.
    pub(crate) fn accept<T>(&self, name: &str, made: Result<T, impl fmt::Display>) -> Option<T> {
        made.map_err(|what| self.wrong(name, what)).ok()
    }

    /// Whether there is a fault at this field, or above it.
    pub(crate) fn is_faulty(&self, name: &str) -> bool {
        self.found.has(&self.path_of(name))
    }

    /// Records the faults of a document that is the value of this field.
    pub(crate) fn add_all(&self, name: &str, faults: &Faults) {
        self.found.add_all(faults, &self.path_of(name));
    }

    pub(crate) fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let text = self.text(name)?;
        let value = serde_json::from_str::<Value>(&text).and_then(serde_json::from_value);
        let value = self.accept(name, value.map_err(|error| problem(&error)))?;
        let once = FORM.read(&text, |place, json| {
            members_once(place, json);
            Some(())
        });
        if let Err(faults) = once {
            self.add_all(name, &faults);
        }
        Some(value)
    }

    /// Its absence is a fault.
    pub(crate) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.optional(name);
        self.accept(name, value.ok_or("is required"))
    }

    pub(crate) fn or<T: DeserializeOwned>(&mut self, name: &str, default: T) -> T {
        self.optional(name).unwrap_or(default)
    }

    /// The operation of a call, one of these by its name.
    pub(crate) fn operation<T>(
        &mut self,
        all: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Option<(&'static str, T)> {
        let op = self.required::<String>("op")?;
        let mut known = Vec::new();
        for (name, operation) in all {
            if name == op {
                return Some((name, operation));
            }
            known.push(name);
        }
        let known = known.join(", ");
        let what = format!("unknown operation {op:?}: use one of {known}");
        self.accept("op", Err(what))
    }

    /// An unparsed field, for a parser of its own.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.texts.remove(name).filter(|text| text != "null")
    }

    /// How a field begins, which tells its kind.
    pub(crate) fn first_byte(&self, name: &str) -> Option<u8> {
        let text = self.texts.get(name).filter(|text| *text != "null")?;
        text.bytes().next()
    }

    /// A nested object; empty if it is absent.
    pub(crate) fn nested(&mut self, name: &str) -> Self {
        let text = self.text(name).unwrap_or_else(|| "{}".to_owned());
        Self::of(text.as_bytes(), self.path_of(name), self.found.clone())
    }

    /// The objects of a required list.
    pub(super) fn list(&mut self, name: &str) -> Vec<Self> {
        let Some(text) = self.text(name) else {
            self.wrong(name, "is required");
            return Vec::new();
        };
        let items = serde_json::from_str::<Vec<&RawValue>>(&text);
        let items = self.accept(name, items.map_err(|error| problem(&error)));
        let items = items.into_iter().flatten().enumerate().map(|(at, item)| {
            let path = format!("{}[{at}]", self.path_of(name));
            Self::of(item.get().as_bytes(), path, self.found.clone())
        });
        items.collect()
    }

    pub(crate) fn warn(&self, warning: impl fmt::Display) {
        self.found.warn(warning);
    }

    /// Warns about fields that were not taken, such as misspelled names.
    pub(crate) fn finish(self) {
        for name in self.texts.keys() {
            self.warn(format_args!(
                "{}: unknown field, ignored",
                self.path_of(name)
            ));
        }
    }
}

/// Records the duplicate members of all objects in a value that serde_json can hold, which bounds
/// its depth.
fn members_once(place: &mut Place<'_>, json: Json<'_>) {
    for (at, item) in json.items().into_iter().flatten().enumerate() {
        members_once(&mut place.index(at), item);
    }
    if json.is_object() {
        let members = Members::any(place, json);
        for (name, json) in members.iter().flat_map(Members::iter) {
            members_once(&mut place.field(name), json);
        }
    }
}

/// What is wrong with a member's text. Its path says where: a line and a column would be those
/// within the member, and not of the document. A text of the wrong type is not repeated: it may be
/// a credential.
fn problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let said = said.strip_suffix(&position).unwrap_or(&said);
    let quoted = said.strip_prefix("invalid type: string \"");
    match quoted.and_then(|quoted| quoted.rsplit_once("\", expected ")) {
        Some((_, expected)) => format!("invalid type: string, expected {expected}"),
        None => said.to_owned(),
    }
}

fn kind_of(json: Json<'_>) -> &'static str {
    match json.text().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'[') => "a list",
        _ => "a number",
    }
}
