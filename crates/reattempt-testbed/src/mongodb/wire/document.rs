//! Documents from a peer, with a bound on nesting depth.

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocument};

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

/// The lists that a reply can bring, a cursor's batches among them.
const LISTS: [&str; 3] = ["values", "databases", "results"];
const BATCHES: [&str; 2] = ["firstBatch", "nextBatch"];

/// Reads the document of a reply, without the first list that it brings: that one stays in the
/// bytes that it came in, because values that are only counted would take many times their memory.
pub(super) fn decode_reply(bytes: &[u8]) -> Result<(Document, Option<RawArrayBuf>), String> {
    let raw = RawDocument::from_bytes(bytes).map_err(|error| error.to_string())?;
    check(raw, MAX_NESTING)?;
    let mut list = None;
    let document = without_list(raw, &LISTS, &mut list).map_err(|error| error.to_string())?;
    Ok((document, list))
}

fn without_list(
    raw: &RawDocument,
    lists: &[&str],
    list: &mut Option<RawArrayBuf>,
) -> Result<Document, bson::raw::Error> {
    let mut document = Document::new();
    for element in raw {
        let (key, value) = element?;
        let value = match (key, value) {
            (key, RawBsonRef::Array(found)) if lists.contains(&key) => {
                list.get_or_insert_with(|| found.to_owned());
                continue;
            }
            ("cursor", RawBsonRef::Document(cursor)) => {
                Bson::Document(without_list(cursor, &BATCHES, list)?)
            }
            (_, value) => Bson::try_from(value)?,
        };
        document.insert(key, value);
    }
    Ok(document)
}

fn check(document: &RawDocument, depth_left: usize) -> Result<(), String> {
    if depth_left == 0 {
        return Err(format!("nests deeper than {MAX_NESTING}"));
    }
    for element in document {
        let (key, value) = element.map_err(|error| error.to_string())?;
        match value {
            RawBsonRef::Document(inner) => check(inner, depth_left - 1)?,
            RawBsonRef::Array(inner) => {
                for value in inner {
                    match value.map_err(|error| error.to_string())? {
                        RawBsonRef::Document(inner) => check(inner, depth_left - 1)?,
                        RawBsonRef::Array(inner) => {
                            let inner = RawDocument::from_bytes(inner.as_bytes())
                                .map_err(|error| error.to_string())?;
                            check(inner, depth_left - 1)?;
                        }
                        RawBsonRef::JavaScriptCodeWithScope(_) => return Err(scope(key)),
                        _ => {}
                    }
                }
            }
            RawBsonRef::JavaScriptCodeWithScope(_) => return Err(scope(key)),
            _ => {}
        }
    }
    Ok(())
}

/// Code with scope hides a document from the walk, and nothing here runs code.
fn scope(key: &str) -> String {
    format!("{key}: code with scope is not taken")
}
