//! The text of a policy as a value, to look at members that its parser does not keep.

use reattempt::config::{Form, Json, Members, Place};
use serde_json::Value;

/// Of two members of one name the last one counts, as in serde_json's `Value`. What is wrong is
/// listed by the parser of the policy.
const FORM: Form = Form {
    of_server: true,
    most_faults: 0,
    most_warnings: 0,
    ..Form::new("the policy")
};

/// `Null` if it is not JSON. What a `Value` cannot hold does not lose the whole document, because
/// the parsers of the policies accept it: a number beyond `f64` is the largest one, a string with
/// half a surrogate pair is its text, and an object with such a name is empty.
pub(crate) fn as_value(text: &str) -> Value {
    let mut value = Value::Null;
    // Its faults are those that the parser of the policy leaves alone, or has found.
    let _ = FORM.read(text, |place, json| {
        value = held(place, json);
        Some(())
    });
    value
}

fn held(place: &mut Place<'_>, json: Json<'_>) -> Value {
    if let Some(items) = json.items() {
        return items.into_iter().map(|item| held(place, item)).collect();
    }
    if json.is_object() {
        let members = Members::any(place, json);
        let members = members.iter().flat_map(Members::iter);
        return members
            .map(|(name, json)| (name.to_owned(), held(place, json)))
            .collect();
    }
    let value = serde_json::from_str(json.text());
    value.unwrap_or_else(|_| match json.as_number().map(str::parse) {
        Some(Ok(number)) => f64::clamp(number, f64::MIN, f64::MAX).into(),
        _ => json.text().into(),
    })
}
