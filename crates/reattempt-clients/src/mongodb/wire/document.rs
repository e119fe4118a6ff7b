//! Documents from a peer, with a bound on nesting depth.

use bson::raw::RawElement;
use bson::spec::ElementType;
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};

/// Maximum nesting depth, as in servers: 200.
pub const MAX_NESTING: usize = 200;

/// Reads one document that fills `bytes`; the error describes the fault.
///
/// The shape is checked lazily first, because the full decoder recurses without a bound.
pub fn decode_document(bytes: &[u8]) -> Result<Document, String> {
    let raw = RawDocument::from_bytes(bytes).map_err(|error| error.to_string())?;
    check(raw, MAX_NESTING)?;
    Document::try_from(raw).map_err(|error| error.to_string())
}

/// The most values of a reply's list that are counted: 100,000.
pub const MAX_LISTED: usize = 100_000;

/// The most fields of a reply that are looked at, those of its cursor included: 10,000.
pub(crate) const MAX_FIELDS: usize = 10_000;

/// How long a field, key and value, may be to be kept in any case, if it is no document or array.
const SMALL: usize = 256;

/// How many bytes of other fields are kept. Decoded they take up to fifty times as much.
const ROOM: usize = 256 * 1024;

/// How much is kept of a message for people.
const MAX_TEXT: usize = 4096;

/// How much is kept of a code's name, in bytes.
const MAX_NAME: usize = 64;

/// How many labels are kept, of at most [`SMALL`] bytes each.
const MAX_LABELS: usize = 64;

/// The lists that a reply can bring, a cursor's batches among them.
const LISTS: [&str; 3] = ["values", "databases", "results"];
const BATCHES: [&str; 2] = ["firstBatch", "nextBatch"];

/// The list that a reply brings, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The field it came in: `firstBatch` or `nextBatch` of the cursor, which hold documents only,
    /// or `values`, `databases` or `results`.
    pub field: &'static str,
    /// The values, each in the field of its place: `bson`'s own type for arrays counts them all.
    /// Those that are counted have the length they state; no document among them has been looked
    /// into.
    pub values: RawDocumentBuf,
    /// How many there are, where [`MAX_LISTED`] + 1 stands for any greater number.
    pub count: usize,
}

/// Reads the document of a reply, without the first list that it brings: that one stays in the
/// bytes that it came in, because values that are only counted would take many times their memory.
///
/// For the same reason of the rest only so much is kept as any sound reply needs: of `errmsg` the
/// first 4 KiB, of `codeName` the first 64 bytes, of `errorLabels` the first 64, of `writeErrors`
/// the first; documents, arrays and long fields as long as there is room. Text that is not UTF-8
/// is replaced in the reply itself and in its write errors, but for a cursor, which is sent back.
pub(super) fn decode_reply(bytes: &[u8]) -> Result<(Document, Option<List>), String> {
    let raw = RawDocument::from_bytes(bytes).map_err(text)?;
    let mut reading = Reading {
        list: None,
        fields: MAX_FIELDS,
        room: ROOM,
    };
    let document = reading.part(raw, Part::Reply)?;
    Ok((document, reading.list))
}

/// Decodes one field of a reply, or one value of a [`List`].
pub(crate) fn decode_value(element: RawElement<'_>) -> Result<Bson, String> {
    let key = element.key();
    let value = element.value().map_err(text)?;
    check_value(key, value, MAX_NESTING - 1)?;
    Bson::try_from(value).map_err(text)
}

/// A text that may quote the server, which may send a name of any length.
fn text(error: impl ToString) -> String {
    cut(&error.to_string(), MAX_TEXT).to_owned()
}

/// The first bytes of a text, at most `most`.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A document of which the fields are known.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Reply,
    Cursor,
    /// Of `writeErrors`, or the `writeConcernError`.
    WriteError,
}

impl Part {
    fn list(self, key: &str) -> Option<&'static str> {
        let lists: &[&'static str] = match self {
            Self::Reply => &LISTS,
            Self::Cursor => &BATCHES,
            Self::WriteError => &[],
        };
        lists.iter().copied().find(|list| *list == key)
    }
}

/// What was found of a reply, and what more may be taken of it.
struct Reading {
    list: Option<List>,
    fields: usize,
    room: usize,
}

impl Reading {
    fn part(&mut self, raw: &RawDocument, part: Part) -> Result<Document, String> {
        let mut document = Document::new();
        // Where the element ends: after the type, the key, its 0 and the value.
        let mut end = size_of::<i32>();
        for element in raw.iter_elements() {
            let element = element.map_err(text)?;
            self.fields = self
                .fields
                .checked_sub(1)
                .ok_or_else(|| format!("has more than {MAX_FIELDS} fields"))?;
            let (key, length) = (element.key(), element.key().len() + element.len());
            let kind = element.element_type();
            let nests = matches!(kind, ElementType::EmbeddedDocument | ElementType::Array);
            end += 1 + key.len() + 1 + element.len();
            let value = &raw.as_bytes()[end - element.len()..end];
            let decoded = |element| match kind {
                // A cursor's `ns` is sent back, so it must be what the server sent.
                ElementType::String if part != Part::Cursor => Ok(lossy(value, value.len())),
                _ => decode_value(element),
            };
            let kept = match (key, kind) {
                (_, ElementType::Array) if part.list(key).is_some() => {
                    if let (None, Some(field)) = (&self.list, part.list(key)) {
                        self.list = Some(list(field, element)?);
                    }
                    continue;
                }
                ("cursor", ElementType::EmbeddedDocument) if part == Part::Reply => {
                    Bson::Document(self.part(inner(element)?, Part::Cursor)?)
                }
                ("writeConcernError", ElementType::EmbeddedDocument) if part == Part::Reply => {
                    Bson::Document(self.part(inner(element)?, Part::WriteError)?)
                }
                ("errmsg", ElementType::String) => lossy(value, MAX_TEXT),
                ("codeName", ElementType::String) => lossy(value, MAX_NAME),
                ("errorLabels", ElementType::Array) => labels(element)?,
                ("writeErrors", ElementType::Array) if part == Part::Reply => {
                    self.first_write_error(element)?
                }
                _ if length <= SMALL && !nests => decoded(element)?,
                _ if length <= self.room => {
                    self.room -= length;
                    match decoded(element) {
                        // Nothing reads it.
                        Err(_) if key == "errInfo" => continue,
                        decoded => decoded?,
                    }
                }
                _ => continue,
            };
            document.insert(key, kept);
        }
        Ok(document)
    }

    fn first_write_error(&mut self, element: RawElement<'_>) -> Result<Bson, String> {
        let Some(first) = inner(element)?.iter_elements().next() else {
            return Ok(Bson::Array(Vec::new()));
        };
        let first = first.map_err(text)?;
        let first = match first.element_type() {
            ElementType::EmbeddedDocument => {
                Bson::Document(self.part(inner(first)?, Part::WriteError)?)
            }
            // It is no write error, and there is one all the same.
            _ => Bson::Null,
        };
        Ok(Bson::Array(vec![first]))
    }
}

/// The fields of a document, or the values of an array.
fn inner<'a>(element: RawElement<'a>) -> Result<&'a RawDocument, String> {
    match element.value().map_err(text)? {
        RawBsonRef::Document(inner) => Ok(inner),
        RawBsonRef::Array(inner) => RawDocument::from_bytes(inner.as_bytes()).map_err(text),
        _ => Err("is no document".to_owned()),
    }
}

fn list(field: &'static str, element: RawElement<'_>) -> Result<List, String> {
    let mut count = 0;
    for value in inner(element.clone())?.iter_elements().take(MAX_LISTED + 1) {
        let kind = value.map_err(text)?.element_type();
        if BATCHES.contains(&field) && kind != ElementType::EmbeddedDocument {
            return Err(format!("{field}.{count} is no document"));
        }
        count += 1;
    }
    let values = inner(element)?.to_owned();
    Ok(List {
        field,
        values,
        count,
    })
}

/// The first bytes of a string, at most `most`. What is not UTF-8 is replaced: a server may cut a
/// message within a character, and the code beside it counts all the same (M4).
fn lossy(value: &[u8], most: usize) -> Bson {
    let text = &value[size_of::<i32>()..value.len() - 1];
    // Whole characters, also the one that begins at the last byte.
    let text = &text[..text.len().min(most.saturating_add(4))];
    Bson::from(cut(&String::from_utf8_lossy(text), most))
}

fn labels(element: RawElement<'_>) -> Result<Bson, String> {
    let mut labels = Vec::new();
    for label in inner(element)?.iter_elements().take(MAX_LABELS) {
        let label = label.map_err(text)?;
        if label.element_type() == ElementType::String && label.len() <= SMALL {
            // One that is not UTF-8 is none.
            labels.extend(decode_value(label));
        }
    }
    Ok(Bson::Array(labels))
}

fn check(document: &RawDocument, depth_left: usize) -> Result<(), String> {
    let depth_left = depth_left
        .checked_sub(1)
        .ok_or_else(|| format!("nests deeper than {MAX_NESTING}"))?;
    for element in document {
        let (key, value) = element.map_err(text)?;
        check_value(key, value, depth_left)?;
    }
    Ok(())
}

fn check_value(key: &str, value: RawBsonRef<'_>, depth_left: usize) -> Result<(), String> {
    match value {
        RawBsonRef::Document(inner) => check(inner, depth_left),
        RawBsonRef::Array(inner) => {
            let inner = RawDocument::from_bytes(inner.as_bytes()).map_err(text)?;
            check(inner, depth_left)
        }
        // Code with scope hides a document from the walk, and nothing here runs code.
        RawBsonRef::JavaScriptCodeWithScope(_) => Err(format!(
            "{}: code with scope is not taken",
            cut(key, MAX_TEXT)
        )),
        _ => Ok(()),
    }
}

/// Reads a number of any BSON type (`ok` and `code` arrive as int32, int64, double, sometimes as
/// decimal128).
#[must_use]
pub fn number(value: Option<&Bson>) -> Option<f64> {
    match value? {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        Bson::Decimal128(n) => n.to_string().parse().ok(),
        Bson::Boolean(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    }
}
