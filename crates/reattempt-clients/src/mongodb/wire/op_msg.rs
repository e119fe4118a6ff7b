//! OP_MSG: one body document and any number of document sequences.

use bson::{Bson, Document};

use super::{Cursor, Header, OP_MSG, WireError, decode_document, frame};

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const REQUIRED_BITS: u32 = 0xffff;

/// One OP_MSG, with the document sequences folded into the body as arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct OpMsg {
    /// Chosen by the sender.
    pub request_id: i32,
    /// The request that this answers, or 0.
    pub response_to: i32,
    /// The command or the reply.
    pub document: Document,
}

impl OpMsg {
    /// Encodes a message with one kind 0 section and no flags.
    pub fn encode(
        request_id: i32,
        response_to: i32,
        document: &Document,
    ) -> Result<Vec<u8>, WireError> {
        let mut body = vec![0; 5];
        document
            .to_writer(&mut body)
            .map_err(|error| WireError::Malformed {
                at: 21,
                what: error.to_string(),
            })?;
        frame(request_id, response_to, OP_MSG, &body)
    }

    pub(super) fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        let (mut document, sequences) = Self::sections(body, decode_document, sequence)?;
        for (name, documents) in sequences {
            if document.contains_key(name) {
                return Err(Cursor::new(body).malformed(format!("{name} is in two sections")));
            }
            document.insert(name, documents);
        }
        Ok(Self {
            request_id: header.request_id,
            response_to: header.response_to,
            document,
        })
    }

    /// The section of kind 0, read by `decode`, and those of kind 1, read by `sequence`.
    pub(super) fn sections<'a, T, S>(
        body: &'a [u8],
        decode: impl Fn(&[u8]) -> Result<T, String>,
        sequence: impl Fn(&mut Cursor<'a>) -> Result<S, WireError>,
    ) -> Result<(T, Vec<S>), WireError> {
        let mut cursor = Cursor::new(body);
        let flags = u32::from_le_bytes(cursor.i32("flags")?.to_le_bytes());
        if flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return Err(WireError::Flags(flags));
        }
        if flags & MORE_TO_COME != 0 {
            return Err(WireError::MoreToCome);
        }
        if flags & CHECKSUM_PRESENT != 0 {
            // Loopback does not corrupt data: the checksum is skipped, not verified.
            let without = body
                .len()
                .checked_sub(4)
                .filter(|end| *end >= cursor.at)
                .ok_or_else(|| cursor.malformed("no room for the checksum"))?;
            cursor.body = &body[..without];
        }
        let mut main: Option<T> = None;
        let mut sequences = Vec::new();
        while cursor.rest() > 0 {
            let at = cursor.at;
            match cursor.bytes(1, "section kind")?[0] {
                0 if main.is_some() => {
                    cursor.at = at;
                    return Err(cursor.malformed("a second section of kind 0"));
                }
                0 => main = Some(cursor.document_by(&decode)?),
                1 => sequences.push(sequence(&mut cursor)?),
                kind => {
                    cursor.at = at;
                    return Err(cursor.malformed(format!("section kind {kind}")));
                }
            }
        }
        let main = main.ok_or_else(|| cursor.malformed("no section of kind 0"))?;
        Ok((main, sequences))
    }
}

/// A kind 1 section: its name and its documents.
type Sequence<'a> = (&'a str, Vec<Bson>);

fn sequence<'a>(cursor: &mut Cursor<'a>) -> Result<Sequence<'a>, WireError> {
    let start = cursor.at;
    let size = cursor.i32("sequence size")?;
    let end = usize::try_from(size)
        .ok()
        .and_then(|size| start.checked_add(size))
        .filter(|end| size >= 5 && *end <= cursor.body.len())
        .ok_or_else(|| cursor.malformed(format!("sequence size {size}")))?;
    let name = cursor.cstring("sequence name")?;
    let mut documents = Vec::new();
    while cursor.at < end {
        documents.push(Bson::Document(cursor.document()?));
    }
    if cursor.at != end {
        return Err(cursor.malformed("the sequence ends within a document"));
    }
    Ok((name, documents))
}
