//! The wire protocol: OP_MSG, and the legacy OP_QUERY with which a handshake may begin.
//!
//! Every length stated by a peer is checked before memory is allocated for it, and documents that
//! nest deeper than servers allow are refused.

mod document;
mod legacy;
mod op_msg;
mod reply;
#[cfg(test)]
mod tests;

pub use document::{List, MAX_LISTED, MAX_NESTING, decode_document, number};
pub(crate) use document::{MAX_FIELDS, cut, decode_value};
pub use legacy::{OpQuery, OpReply};
pub use op_msg::OpMsg;
pub use reply::{Reply, read_reply};

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest message the protocol allows: 48,000,000 bytes.
pub const PROTOCOL_LIMIT: usize = 48_000_000;

/// Bytes of the header before every message.
pub(crate) const HEADER_LEN: usize = 16;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;

/// Why the bytes of a message are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The stated length is too small for a message, or above the bound.
    #[error("message length {length} at byte 0: must be between 16 and {limit}")]
    Length {
        /// The stated length.
        length: i32,
        /// The bound.
        limit: usize,
    },
    /// An operation code that this codec does not support.
    #[error("opcode {0} at byte 12: only OP_MSG (2013), OP_QUERY (2004) and OP_REPLY (1)")]
    Opcode(i32),
    /// A required flag that this codec does not know.
    #[error("OP_MSG flags {0:#010x} at byte 16: unknown required bits")]
    Flags(u32),
    /// The peer announced further messages without a request for them.
    #[error("OP_MSG flag moreToCome at byte 16: refused, one answer a request")]
    MoreToCome,
    /// The content is malformed.
    #[error("byte {at}: {what}")]
    Malformed {
        /// Offset from the start of the message.
        at: usize,
        /// What is wrong there.
        what: String,
    },
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The socket failed, or ended within a message (`UnexpectedEof`).
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a valid message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The header of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the whole message, including these 16 bytes.
    pub length: i32,
    /// Chosen by the sender, for this message.
    pub request_id: i32,
    /// The request that this answers, or 0.
    pub response_to: i32,
    /// The kind of the message.
    pub op_code: i32,
}

impl Header {
    /// Reads a header and checks its length against `limit`.
    pub fn decode(bytes: &[u8; HEADER_LEN], limit: usize) -> Result<Self, WireError> {
        let word = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let header = Self {
            length: word(0),
            request_id: word(4),
            response_to: word(8),
            op_code: word(12),
        };
        let limit = limit.min(PROTOCOL_LIMIT);
        match usize::try_from(header.length) {
            Ok(length) if (HEADER_LEN..=limit).contains(&length) => Ok(header),
            _ => Err(WireError::Length {
                length: header.length,
                limit,
            }),
        }
    }
}

/// One message of any supported kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// OP_MSG, used for everything since MongoDB 3.6.
    Msg(OpMsg),
    /// The legacy query, which a driver may use for its first `hello`.
    Query(OpQuery),
    /// The answer to the legacy query.
    Reply(OpReply),
}

impl Message {
    /// Reads the body that belongs to `header`.
    pub fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        match header.op_code {
            OP_MSG => OpMsg::decode(header, body).map(Self::Msg),
            OP_QUERY => OpQuery::decode(header, body).map(Self::Query),
            OP_REPLY => OpReply::decode(header, body).map(Self::Reply),
            other => Err(WireError::Opcode(other)),
        }
    }
}

/// Reads one message, of at most `limit` bytes; `None` when the peer closed between messages.
///
/// # Errors
///
/// An end within a message is an [`io::ErrorKind::UnexpectedEof`].
pub async fn read_message<R>(reader: &mut R, limit: usize) -> Result<Option<Message>, ReadError>
where
    R: AsyncRead + Unpin,
{
    let Some((header, body)) = read_body(reader, limit).await? else {
        return Ok(None);
    };
    Ok(Some(Message::decode(header, &body)?))
}

/// Reads the header and the bytes of one message.
async fn read_body<R>(reader: &mut R, limit: usize) -> Result<Option<(Header, Vec<u8>)>, ReadError>
where
    R: AsyncRead + Unpin,
{
    let mut start = [0; HEADER_LEN];
    let first = reader.read(&mut start).await?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut start[first..]).await?;
    let header = Header::decode(&start, limit)?;
    let expected = usize::try_from(header.length).unwrap_or(HEADER_LEN) - HEADER_LEN;
    // Memory is allocated only as the bytes arrive, not by the stated length.
    let mut body = Vec::with_capacity(expected.min(64 * 1024));
    reader.take(expected as u64).read_to_end(&mut body).await?;
    if body.len() < expected {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "closed after {} of {} bytes of a message",
                body.len() + HEADER_LEN,
                header.length
            ),
        )
        .into());
    }
    Ok(Some((header, body)))
}

/// Prepends the header to a body.
fn frame(
    request_id: i32,
    response_to: i32,
    op_code: i32,
    body: &[u8],
) -> Result<Vec<u8>, WireError> {
    let length = body.len() + HEADER_LEN;
    let stated = i32::try_from(length).unwrap_or(i32::MAX);
    if length > PROTOCOL_LIMIT {
        return Err(WireError::Length {
            length: stated,
            limit: PROTOCOL_LIMIT,
        });
    }
    let mut bytes = Vec::with_capacity(length);
    for word in [stated, request_id, response_to, op_code] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Reads the body of a message; every error names its byte offset.
#[derive(Debug)]
struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    fn malformed(&self, what: impl Into<String>) -> WireError {
        WireError::Malformed {
            at: HEADER_LEN + self.at,
            what: what.into(),
        }
    }

    fn rest(&self) -> usize {
        self.body.len() - self.at
    }

    fn bytes(&mut self, count: usize, name: &str) -> Result<&'a [u8], WireError> {
        if count > self.rest() {
            return Err(self.malformed(format!(
                "{name} wants {count} bytes, {} are left",
                self.rest()
            )));
        }
        let taken = &self.body[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    fn i32(&mut self, name: &str) -> Result<i32, WireError> {
        let b = self.bytes(4, name)?;
        Ok(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn i64(&mut self, name: &str) -> Result<i64, WireError> {
        let b = self.bytes(8, name)?;
        Ok(i64::from_le_bytes([
            b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
        ]))
    }

    fn cstring(&mut self, name: &str) -> Result<&'a str, WireError> {
        let rest = &self.body[self.at..];
        let end = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| self.malformed(format!("{name} has no end")))?;
        let text = std::str::from_utf8(&rest[..end])
            .map_err(|_| self.malformed(format!("{name} is not UTF-8")))?;
        self.at += end + 1;
        Ok(text)
    }

    fn document(&mut self) -> Result<bson::Document, WireError> {
        self.document_by(decode_document)
    }

    fn document_by<T>(
        &mut self,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, WireError> {
        if self.rest() < 5 {
            return Err(self.malformed(format!(
                "a document wants 5 bytes, {} are left",
                self.rest()
            )));
        }
        let b = &self.body[self.at..self.at + 4];
        let length = i32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let length = match usize::try_from(length) {
            Ok(length) if (5..=self.rest()).contains(&length) => length,
            _ => {
                return Err(self.malformed(format!(
                    "document length {length} with {} bytes left",
                    self.rest()
                )));
            }
        };
        let at = self.at;
        let bytes = self.bytes(length, "document")?;
        decode(bytes).map_err(|what| WireError::Malformed {
            at: HEADER_LEN + at,
            what,
        })
    }
}
