//! What a server answered.

use bson::{Bson, Document, RawBsonRef, Timestamp};

use super::server_error::whole;
use super::{MongoRequest, Operation};
use crate::mongodb::wire::number;
use crate::mongodb::wire::{List, MAX_FIELDS, decode_value};

/// Up to here each whole number is a number of the type: 2^53.
const MAX_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// What came back from a server that said ok.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MongoReply {
    /// The reply without its list, and without long fields that nothing reads.
    pub document: Document,
    /// A cursor's batch, or the first of `values`, `databases` and `results`, as it came.
    pub list: Option<List>,
    /// The length of the message.
    pub bytes: usize,
    /// Who answered.
    pub server: String,
    /// What that server offers.
    pub max_wire_version: i32,
    /// Of the message that was answered.
    pub request_id: i32,
    /// The client's number of the connection.
    pub connection_id: u64,
}

impl MongoReply {
    /// The reply of a test's own service: of no server and of no connection, with 0 bytes.
    #[must_use]
    pub const fn new(document: Document, list: Option<List>) -> Self {
        Self {
            document,
            list,
            bytes: 0,
            server: String::new(),
            max_wire_version: 0,
            request_id: 0,
            connection_id: 0,
        }
    }

    fn cursor(&self) -> Option<&Document> {
        self.document.get_document("cursor").ok()
    }

    /// The values of the reply's list that are counted, each decoded when it is its turn.
    ///
    /// # Errors
    ///
    /// What is wrong with a value, as text.
    pub fn values(&self) -> impl Iterator<Item = Result<Bson, String>> + '_ {
        let values = self.list.iter().flat_map(|list| {
            let values = list.values.iter_elements();
            values.take(list.count)
        });
        values.map(|element| decode_value(element.map_err(|error| error.to_string())?))
    }

    /// The cursor that stays open on the server.
    #[must_use]
    pub fn cursor_id(&self) -> Option<i64> {
        whole(self.cursor()?.get("id")).filter(|id| *id != 0)
    }

    /// The collection that the cursor reads.
    #[must_use]
    pub fn collection(&self) -> Option<&str> {
        self.cursor()?
            .get_str("ns")
            .ok()?
            .split_once('.')
            .map(|(_, name)| name)
            .filter(|name| !name.is_empty())
    }

    /// How many documents, values, databases or results the reply holds, as [`List::count`]; for
    /// `count` and `insert` what it counted.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.list {
            Some(list) => list.count,
            None if self.cursor().is_some() => 0,
            None => number_of(self.document.get("n")).unwrap_or(0),
        }
    }

    /// The number `n` of the first document, which is what `countDocuments` asks for: 0 without a
    /// document, `None` where it is no whole number.
    #[must_use]
    pub fn counted(&self) -> Option<usize> {
        let Some(first) = self.list.as_ref()?.values.iter().next() else {
            return Some(0);
        };
        let (_, RawBsonRef::Document(first)) = first.ok()? else {
            return None;
        };
        let mut fields = first.iter_elements().take(MAX_FIELDS);
        let n = fields.find_map(|field| field.ok().filter(|field| field.key() == "n"))?;
        let n = Bson::try_from(n.value().ok().filter(is_number)?).ok()?;
        number_of(Some(&n))
    }

    /// What this answer to `request` lacks although it says ok. An answer without the list that its
    /// command returns is not an empty one.
    pub(super) fn fault(&self, request: &MongoRequest) -> Option<String> {
        let explained = number(request.command.get("explain")).is_some_and(|flag| flag != 0.0);
        if explained {
            return None;
        }
        if request.operation == Operation::Count {
            let n = number_of(self.document.get("n"));
            return n.is_none().then(|| "no number n".to_owned());
        }
        let field = request.operation.list()?;
        if self.list.as_ref().map(|list| list.field) != Some(field) {
            return Some(format!("no array {field}"));
        }
        if let Some(cursor) = self.cursor() {
            if whole(cursor.get("id")).is_none() {
                return Some("no number cursor.id".to_owned());
            }
            // A `getMore` reads the collection that it was sent with.
            let first = request.operation != Operation::GetMore;
            if first && self.cursor_id().is_some() && self.collection().is_none() {
                return Some("no namespace cursor.ns".to_owned());
            }
        }
        if request.operation == Operation::CountDocuments && self.counted().is_none() {
            return Some("no number n in its document".to_owned());
        }
        None
    }

    /// The server's time of the operation.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.document.get_timestamp("operationTime").ok()
    }
}

/// A server's count of documents: a whole number of any type, not below 0, read without rounding.
fn number_of(n: Option<&Bson>) -> Option<usize> {
    if let Some(Bson::Int64(n)) = n {
        return usize::try_from(*n).ok();
    }
    let n = number(n)?;
    let exact = n.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&n);
    // A cast to `usize` would turn what is too large for 32 bits into another count.
    exact
        .then_some(n as u64)
        .and_then(|n| usize::try_from(n).ok())
}

fn is_number(value: &RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_same_whatever_type_it_has() {
        for n in [0, 3, i64::from(u32::MAX), 1 << 40] {
            let whole = number_of(Some(&Bson::Int64(n)));
            assert_eq!(number_of(Some(&Bson::Double(n as f64))), whole, "{n}");
        }
    }
}
