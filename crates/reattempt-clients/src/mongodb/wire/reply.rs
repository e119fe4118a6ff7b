//! A reply as read by a client: its list is counted, and decoded only when needed.

use bson::Document;
use tokio::io::AsyncRead;

use super::document::decode_reply;
use super::{Cursor, Header, List, OP_MSG, OpMsg, ReadError, WireError, read_body};
use crate::blocking;

/// The longest reply that is decoded where it arrives: 4 KiB. A longer one may take milliseconds.
const SHORT: usize = 4 * 1024;

/// The OP_MSG that answers a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The request that this answers.
    pub response_to: i32,
    /// The reply without its list, and without long fields that nothing reads.
    pub document: Document,
    /// A cursor's batch, or the first of `values`, `databases` and `results`, as it came.
    pub list: Option<List>,
    /// Of the whole message.
    pub bytes: usize,
}

impl Reply {
    /// Reads the body that belongs to `header`.
    fn decode(header: Header, body: &[u8]) -> Result<Self, WireError> {
        if header.op_code != OP_MSG {
            return Err(WireError::Opcode(header.op_code));
        }
        let refused = |cursor: &mut Cursor<'_>| -> Result<(), WireError> {
            Err(cursor.malformed("a reply with a document sequence"))
        };
        let ((document, list), _) = OpMsg::sections(body, decode_reply, refused)?;
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
/// A reply of more than 4 KiB is decoded on a thread for blocking work, so it must be called
/// within a tokio runtime.
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
    let reply = if body.len() <= SHORT {
        Reply::decode(header, &body)?
    } else {
        blocking::run(move || Reply::decode(header, &body)).await?
    };
    Ok(Some(reply))
}
