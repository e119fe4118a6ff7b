//! The forms of documents that a server sends.

use reattempt::config::{Form, Json, Members, Place, Unreadable};

/// A form with serde_json's own bound of depth and this bound of length in bytes.
pub(crate) const fn form(
    subject: &'static str,
    longest: usize,
    refusal: fn(&Unreadable) -> String,
) -> Form {
    Form {
        longest,
        deepest: 127,
        of_server: true,
        most_warnings: 10_000,
        refusal,
        ..Form::new(subject)
    }
}

/// The message for a text that is not JSON.
pub(crate) fn not_json(unreadable: &Unreadable) -> String {
    match unreadable {
        Unreadable::NotJson {
            line, column, what, ..
        } => format!("not JSON, at line {line}, column {column}: {what}"),
        other => other.to_string(),
    }
}

/// The known members of an object.
pub(crate) fn object<'t>(
    place: &mut Place<'_>,
    json: Json<'t>,
    known: &[&str],
) -> Option<Members<'t>> {
    if !json.is_object() {
        return place.refuse(format!("must be an object, got {}", json.describe()));
    }
    Members::or(place, json, known, "must be an object")
}
