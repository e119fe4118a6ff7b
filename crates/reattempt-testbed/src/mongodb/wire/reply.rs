//! A reply as read by a client: its list is counted, and decoded only when needed.

use bson::{Document, RawArrayBuf};
use tokio::io::AsyncRead;

use super::document::decode_reply;
use super::{Header, OP_MSG, OpMsg, ReadError, WireError, read_body};

/// The OP_MSG that answers a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The request that this answers.
    pub response_to: i32,
    /// The reply without its list.
    pub document: Document,
    /// A cursor's batch, or the first of `values`, `databases` and `results`, as it came.
    pub list: Option<RawArrayBuf>,
    /// Of the whole message.
    pub bytes: usize,
}

impl Reply {
    /// Reads the body that belongs to `header`.
    fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        if header.op_code != OP_MSG {
            return Err(WireError::Opcode(header.op_code));
        }
        let ((document, list), sequences) = OpMsg::sections(body, decode_reply)?;
        if let Some((name, _)) = sequences.first() {
            return Err(WireError::Malformed {
                at: super::HEADER_LEN,
                what: format!("a reply with a document sequence, {name}"),
            });
        }
        Ok(Self {
            response_to: header.response_to,
            document,
            list,
            bytes: super::HEADER_LEN + body.len(),
        })
    }
}

/// Reads one reply, of at most `limit` bytes; `None` when the peer closed before it.
///
/// # Errors
///
/// As those of [`read_message`](super::read_message); a message of another kind is
/// [`WireError::Opcode`].
pub async fn read_reply<R>(reader: &mut R, limit: usize) -> Result<Option<Reply>, ReadError>
where
    R: AsyncRead + Unpin,
{
    let Some((header, body)) = read_body(reader, limit).await? else {
        return Ok(None);
    };
    Ok(Some(Reply::decode(header, &body)?))
}
