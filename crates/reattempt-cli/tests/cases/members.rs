//! Reads JSON objects whose every member must be known.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The result of reading or running a case; the error is text for a person.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The members of one object that were not read yet.
pub(crate) struct Members {
    place: String,
    left: Map<String, Value>,
}

impl Members {
    /// The members of an object; `place` names it in errors.
    pub(crate) fn of(place: &str, value: Value) -> Result<Self> {
        let place = place.to_owned();
        match value {
            Value::Object(left) => Ok(Self { place, left }),
            other => Err(format!("{place}: must be an object, got {other}")),
        }
    }

    /// The words of one step: a bare word is short for `{word: true}`, a number for
    /// `{number: n}`.
    pub(crate) fn step(value: Value, number: &str) -> Result<Self> {
        let named = |name: &str, value| Map::from_iter([(name.to_owned(), value)]);
        let words = match value {
            Value::String(word) => named(&word, Value::Bool(true)),
            Value::Number(_) => named(number, value),
            Value::Object(words) => words,
            other => {
                return Err(format!(
                    "a step must be a word, a number or an object: {other}"
                ));
            }
        };
        Self::of("step", Value::Object(words))
    }

    /// Removes a member; absent is `None`.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.left.remove(name) else {
            return Ok(None);
        };
        let shown = value.to_string();
        let read = serde_json::from_value(value);
        read.map(Some)
            .map_err(|error| format!("{}.{name}: {error}: {shown}", self.place))
    }

    /// Removes a member without a default.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let value = self.take(name)?;
        value.ok_or_else(|| format!("{}.{name}: is missing", self.place))
    }

    /// Removes a word without an argument: `true`, or absent.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take::<bool>(name)? {
            Some(false) => Err(format!("{}.{name}: must be true or absent", self.place)),
            said => Ok(said.is_some()),
        }
    }

    /// What stands beside the first of these words that is there.
    pub(crate) fn word<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<Option<T>> {
        for (word, meaning) in words {
            if self.flag(word)? {
                return Ok(Some(*meaning));
            }
        }
        Ok(None)
    }

    /// The error when members are left: unknown, or of no use together with the others.
    pub(crate) fn finish(self) -> Result<()> {
        match self.left.keys().next() {
            Some(name) => Err(format!("{}.{name}: is not known here", self.place)),
            None => Ok(()),
        }
    }
}
