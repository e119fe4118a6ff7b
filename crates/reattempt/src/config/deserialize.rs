//! Documents inside of settings in another format.

use serde::Deserializer;
use serde::de::{Deserialize, Error as _};

use super::Faults;

/// Reads a document that stands inside of a program's own settings, in any format that serde knows,
/// with the same `parse` as its JSON text. For `serde::Deserialize` of policies.
///
/// # Errors
/// What the format itself does not accept; else all faults of the document, in the message of one
/// error. Their paths begin at the document.
///
/// A number that JSON does not have, such as `nan`, is `null`.
pub fn deserialize<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, Faults>,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    parse(&value.to_string()).map_err(D::Error::custom)
}
