//! OP_QUERY and OP_REPLY, used only for the first `hello` or `isMaster` of a connection.

use bson::Document;

use super::{Cursor, Header, OP_QUERY, OP_REPLY, WireError, frame};

/// A legacy query; here always a command on `<database>.$cmd`.
#[derive(Debug, Clone, PartialEq)]
pub struct OpQuery {
    /// Chosen by the sender.
    pub request_id: i32,
    /// `<database>.$cmd`.
    pub collection: String,
    /// The command.
    pub document: Document,
}

impl OpQuery {
    /// Encodes a command on `<database>.$cmd`.
    pub fn encode(
        request_id: i32,
        collection: &str,
        document: &Document,
    ) -> Result<Vec<u8>, WireError> {
        let mut body = vec![0; 4];
        body.extend_from_slice(collection.as_bytes());
        body.push(0);
        body.extend_from_slice(&0_i32.to_le_bytes());
        body.extend_from_slice(&(-1_i32).to_le_bytes());
        write(document, &mut body)?;
        frame(request_id, 0, OP_QUERY, &body)
    }

    pub(super) fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        cursor.i32("flags")?;
        let collection = cursor.cstring("fullCollectionName")?.to_owned();
        cursor.i32("numberToSkip")?;
        cursor.i32("numberToReturn")?;
        let document = cursor.document()?;
        Ok(Self {
            request_id: header.request_id,
            collection,
            document,
        })
    }
}

/// The answer to an [`OpQuery`].
#[derive(Debug, Clone, PartialEq)]
pub struct OpReply {
    /// Chosen by the sender.
    pub request_id: i32,
    /// The `request_id` of the query.
    pub response_to: i32,
    /// The returned documents; one for a command.
    pub documents: Vec<Document>,
}

impl OpReply {
    /// Encodes an answer with one document.
    pub fn encode(
        request_id: i32,
        response_to: i32,
        document: &Document,
    ) -> Result<Vec<u8>, WireError> {
        // The AwaitCapable flag, which every server has set since 1.6.
        let mut body = 8_i32.to_le_bytes().to_vec();
        body.extend_from_slice(&0_i64.to_le_bytes());
        body.extend_from_slice(&0_i32.to_le_bytes());
        body.extend_from_slice(&1_i32.to_le_bytes());
        write(document, &mut body)?;
        frame(request_id, response_to, OP_REPLY, &body)
    }

    pub(super) fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        cursor.i32("responseFlags")?;
        cursor.i64("cursorID")?;
        cursor.i32("startingFrom")?;
        cursor.i32("numberReturned")?;
        let mut documents = Vec::new();
        while cursor.rest() > 0 {
            documents.push(cursor.document()?);
        }
        Ok(Self {
            request_id: header.request_id,
            response_to: header.response_to,
            documents,
        })
    }
}

fn write(document: &Document, body: &mut Vec<u8>) -> Result<(), WireError> {
    let at = super::HEADER_LEN + body.len();
    document
        .to_writer(body)
        .map_err(|error| WireError::Malformed {
            at,
            what: error.to_string(),
        })
}
