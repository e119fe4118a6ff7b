//! Write errors within a successful reply.

use std::fmt;

use bson::Document;

use super::MongoReply;
use super::server_error::{Printable, whole};

/// The first of a reply's `writeErrors`. Its code is not a command's code, so it is returned to the
/// caller whatever the number (E6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    /// `code`, of any number type; absent when there was none.
    pub code: Option<i64>,
    /// `errmsg`, or nothing.
    pub message: String,
}

impl WriteError {
    /// The write error of a successful reply.
    #[must_use]
    pub fn of(reply: &MongoReply) -> Option<Self> {
        let errors = reply.document.get_array("writeErrors").ok()?;
        let first = errors.first()?;
        let text = |error: &Document| error.get_str("errmsg").unwrap_or_default().to_owned();
        let first = first.as_document();
        Some(Self {
            code: first.and_then(|error| whole(error.get("code"))),
            message: first.map(text).unwrap_or_default(),
        })
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "write error {code}")?,
            None => f.write_str("write error without a code")?,
        }
        if self.message.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", Printable(&self.message))
    }
}

impl std::error::Error for WriteError {}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;

    fn reply(document: Document) -> MongoReply {
        MongoReply::new(document, None)
    }

    /// E5 E6
    #[test]
    fn the_first_write_error_is_reported() {
        let errors = vec![
            Bson::from(doc! { "index": 0, "code": 11000.0, "errmsg": "duplicate key" }),
            Bson::from(doc! { "index": 1, "code": 1 }),
        ];
        let error = WriteError::of(&reply(doc! { "ok": 1, "n": 0, "writeErrors": errors }));
        assert_eq!(
            error.map(|error| error.to_string()).as_deref(),
            Some("write error 11000: duplicate key")
        );
        let none = doc! { "ok": 1, "n": 1, "writeErrors": Vec::<Bson>::new() };
        assert_eq!(WriteError::of(&reply(none)), None);
        let odd = WriteError::of(&reply(doc! { "ok": 1, "writeErrors": [7] }));
        assert_eq!(odd.and_then(|error| error.code), None);
    }
}
