//! Write errors within a successful reply.

use std::fmt;

use bson::Document;

use super::MongoReply;
use super::server_error::{Printable, whole};

/// The first of a reply's `writeErrors`, or its `writeConcernError`. Its code is not a command's
/// code, so it is returned to the caller whatever the number (E6, M7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    /// `code`, of any number type; absent when there was none.
    pub code: Option<i64>,
    /// `errmsg`, or nothing.
    pub message: String,
    /// Whether it is of the write concern: the write was carried out.
    pub concern: bool,
}

impl WriteError {
    /// The write error of a successful reply. Only the reply to a write has one: what a read's has
    /// under these names does not count.
    #[must_use]
    pub fn of(reply: &MongoReply) -> Option<Self> {
        let errors = reply.document.get_array("writeErrors");
        let first = errors.ok().and_then(|errors| errors.first());
        let concern = || reply.document.get_document("writeConcernError").ok();
        match first {
            Some(first) => Some(Self::read(first.as_document(), false)),
            None => concern().map(|concern| Self::read(Some(concern), true)),
        }
    }

    fn read(error: Option<&Document>, concern: bool) -> Self {
        let text = |error: &Document| error.get_str("errmsg").unwrap_or_default().to_owned();
        Self {
            code: error.and_then(|error| whole(error.get("code"))),
            message: error.map(text).unwrap_or_default(),
            concern,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.concern {
            true => "write concern error ",
            false => "write error ",
        })?;
        match self.code {
            Some(code) => write!(f, "{code}")?,
            None => f.write_str("without a code")?,
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
        let concern = doc! { "code": 64_i64, "errmsg": "timed out" };
        let unmet =
            reply(doc! { "ok": 1, "n": 1, "writeErrors": [], "writeConcernError": concern });
        assert_eq!(
            WriteError::of(&unmet)
                .map(|error| error.to_string())
                .as_deref(),
            Some("write concern error 64: timed out")
        );
        let odd = WriteError::of(&reply(doc! { "ok": 1, "writeErrors": [7] }));
        assert_eq!(odd.and_then(|error| error.code), None);
    }
}
