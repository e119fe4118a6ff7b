//! Names errors that no reader knows, for the log: their types and what would read them.
//!
//! A boxed error has no type name at runtime. What identifies it is the head of its `Debug`, which
//! is the type's name for derived and most other implementations. Only a name in the form of one is
//! taken, and nothing after it: the contents may include credentials (reqwest's URL).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Write as _};

use super::read::{Read, chain};

/// A type of another crate, and the feature that reads it.
struct Reader {
    name: &'static str,
    /// How its `Debug` begins; `tests.rs` holds it against the crate's own errors.
    debug: &'static [&'static str],
    feature: &'static str,
    on: bool,
}

const READERS: [Reader; 8] = [
    Reader {
        name: "hyper::Error",
        debug: &["hyper::Error("],
        feature: "hyper",
        on: cfg!(feature = "hyper"),
    },
    Reader {
        name: "hyper_util::client::legacy::Error",
        debug: &["hyper_util::client::legacy::Error("],
        feature: "hyper-util",
        on: cfg!(feature = "hyper-util"),
    },
    Reader {
        name: "h2::Error",
        debug: &[
            "Error { kind: Reset(StreamId(",
            "Error { kind: GoAway(b\"",
            "Error { kind: Reason(",
        ],
        feature: "h2",
        on: cfg!(feature = "h2"),
    },
    Reader {
        name: "reqwest::Error",
        debug: &["reqwest::Error {"],
        feature: "reqwest",
        on: cfg!(feature = "reqwest"),
    },
    Reader {
        name: "tonic::transport::Error",
        debug: &["tonic::transport::Error("],
        feature: "tonic",
        on: cfg!(feature = "tonic"),
    },
    Reader {
        name: "tonic::TimeoutExpired",
        debug: &["TimeoutExpired(())"],
        feature: "tonic",
        on: cfg!(feature = "tonic"),
    },
    Reader {
        name: "tower::timeout::error::Elapsed",
        // That of tokio's `Elapsed` too, but the feature `tokio`, which reads it, is on wherever
        // there are recovery layers to log this.
        debug: &["Elapsed(())"],
        feature: "tower",
        on: cfg!(feature = "tower"),
    },
    Reader {
        name: "tower::load_shed::error::Overloaded",
        debug: &["Overloaded"],
        feature: "tower",
        on: cfg!(feature = "tower"),
    },
];

/// For an error type with an implementation of its own.
pub(super) fn own<E: ?Sized>() -> String {
    let name = std::any::type_name::<E>();
    format!("got an error that `{name}` reports as TransportFault::Unknown")
}

/// The types of this chain that no reader knows; `None` if all are known.
pub(super) fn types(error: &(dyn Error + 'static)) -> Option<String> {
    let unknown = chain(error).filter(|error| matches!(Read::of(*error), Read::UnknownType));
    let heads: Vec<_> = unknown.map(Head::of).collect();
    if heads.is_empty() {
        return None;
    }
    let mut text = "got an error of a type that no reader knows (".to_owned();
    for (at, head) in heads.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ", caused by " });
        match head.name() {
            Some(name) => drop(write!(text, "`{name}`")),
            None => text.push_str("a type that does not show its name"),
        }
    }
    text.push_str("), so it counts as unknown: ");
    text.push_str(&advice(&heads));
    Some(text)
}

fn advice(heads: &[Head]) -> String {
    let readers = || heads.iter().filter_map(Head::reader);
    let missing = readers().filter(|reader| !reader.on);
    let missing: BTreeSet<_> = missing.map(|reader| reader.feature).collect();
    if !missing.is_empty() {
        let named = missing.iter().map(|feature| format!("feature `{feature}`"));
        let named = Vec::from_iter(named).join(", ");
        return format!("to read it, enable in reattempt-http or reattempt-grpc {named}");
    }
    if let Some(reader) = readers().next() {
        let feature = reader.feature;
        return format!("the feature `{feature}` is on, but reads another version of that crate");
    }
    "implement `TransportError` for it, or for the error around it".to_owned()
}

/// The beginning of an error's `Debug`.
struct Head(String);

/// Longer than every beginning above.
const LONGEST: usize = 64;

impl fmt::Write for Head {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.0.len() >= LONGEST {
                // Stops the formatting: the rest may be long.
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}

impl Head {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut head = Self(String::new());
        // An error of `write!` means that the head is full.
        let _ = write!(head, "{error:?}");
        head
    }

    fn reader(&self) -> Option<&'static Reader> {
        let begins = |debug: &&str| match self.0.strip_prefix(*debug) {
            // A name alone is the whole text.
            Some(rest) => rest.is_empty() || !debug.ends_with(|last: char| last.is_alphabetic()),
            None => false,
        };
        READERS
            .iter()
            .find(|reader| reader.debug.iter().any(begins))
    }

    /// A type's name: before fields, and in the form of a type or of a path.
    fn name(&self) -> Option<&str> {
        if let Some(reader) = self.reader() {
            return Some(reader.name);
        }
        let part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
        let end = self.0.find(|letter| !part(letter))?;
        let (name, rest) = self.0.split_at(end);
        let first = name.chars().next()?;
        let is_type = first.is_ascii_uppercase();
        let is_path = first.is_ascii_lowercase() && name.contains("::");
        let has_fields = rest.starts_with('(') || rest.starts_with(" {");
        (has_fields && (is_type || is_path)).then_some(name)
    }
}
