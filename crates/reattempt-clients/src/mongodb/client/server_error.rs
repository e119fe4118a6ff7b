//! A server's answer that is an error, read.

use std::fmt::{self, Write as _};

use bson::{Bson, Document};
use reattempt_mongodb::codes::code_from_f64;

use super::Origin;
use crate::mongodb::wire::number;

/// A reply that says `ok: 0`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerError {
    /// Who answered.
    pub origin: Origin,
    /// `code`, of any number type; absent when there was none.
    pub code: Option<i64>,
    /// `codeName`, its first 64 bytes, or nothing.
    pub code_name: String,
    /// `errmsg`, its first 4 KiB, or nothing.
    pub message: String,
    /// `errorLabels`, the first 64.
    pub labels: Vec<String>,
    /// The reply, without long fields that nothing reads.
    pub document: Document,
    /// Of the command that was answered.
    pub request_id: i32,
    /// Whether the command was part of a connection's handshake.
    pub stage_handshake: bool,
}

/// A code, of any number type, if it is a whole number; a boolean is none.
pub(super) fn whole(code: Option<&Bson>) -> Option<i64> {
    match code? {
        Bson::Int32(code) => Some(i64::from(*code)),
        Bson::Int64(code) => Some(*code),
        code @ (Bson::Double(_) | Bson::Decimal128(_)) => code_from_f64(number(Some(code))?),
        _ => None,
    }
}

/// Whether a reply says that the command succeeded. `ok` may be of any number type, or a boolean.
pub(super) fn is_ok(document: &Document) -> bool {
    number(document.get("ok")) == Some(1.0)
}

/// A server's text for a log or a terminal: control characters are escaped.
pub(super) struct Printable<'a>(pub(super) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            if char.is_control() {
                write!(f, "{}", char.escape_default())?;
            } else {
                f.write_char(char)?;
            }
        }
        Ok(())
    }
}

impl ServerError {
    /// The name, code and message, as far as the server gave them.
    pub(super) fn described(&self) -> String {
        let what = match (self.code_name.as_str(), self.code) {
            ("", None) => "error without a code".to_owned(),
            ("", Some(code)) => format!("error {code}"),
            (name, None) => Printable(name).to_string(),
            (name, Some(code)) => format!("{} ({code})", Printable(name)),
        };
        if self.message.is_empty() {
            return what;
        }
        format!("{what}: {}", Printable(&self.message))
    }

    /// Reads a reply that is not ok. What it lacks, or has of another type, counts as absent.
    #[must_use]
    pub fn read(
        origin: Origin,
        document: Document,
        request_id: i32,
        stage_handshake: bool,
    ) -> Self {
        let text = |field: &str| document.get_str(field).unwrap_or_default().to_owned();
        let labels = document
            .get_array("errorLabels")
            .map(|labels| {
                labels
                    .iter()
                    .filter_map(Bson::as_str)
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default();
        let code = whole(document.get("code"));
        Self {
            origin,
            code,
            code_name: text("codeName"),
            message: text("errmsg"),
            labels,
            request_id,
            stage_handshake,
            document,
        }
    }
}
