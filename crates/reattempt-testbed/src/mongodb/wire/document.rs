//! Documents from a peer, with a bound on how deep they nest.

use bson::{Document, RawBsonRef, RawDocument};

/// How deep a document may nest, as in servers: 200.
pub const MAX_NESTING: usize = 200;

/// Reads one document that fills `bytes`; the error says what was wrong with it.
///
/// The shape is checked lazily first, because the full decoder recurses without a bound.
pub fn decode_document(bytes: &[u8]) -> Result<Document, String> {
    let raw = RawDocument::from_bytes(bytes).map_err(|error| error.to_string())?;
    check(raw, MAX_NESTING)?;
    Document::try_from(raw).map_err(|error| error.to_string())
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
