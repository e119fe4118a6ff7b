//! A frame as it arrived. Its parts are ranges of one buffer, so that a response is small to move
//! and takes one reference to what was read.

use bytes::{Buf, Bytes, BytesMut};
use reattempt_couchbase::kv::{Opcode, Status};

use super::{Frame, FrameError, HEADER_LEN, Magic};

/// The body of a frame: framing extras, extras, key and value, one behind the other.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::kv) struct Body {
    framing: u8,
    extras: u8,
    key: u16,
    bytes: Bytes,
}

impl Body {
    fn starts(&self) -> [usize; 3] {
        let extras = usize::from(self.framing);
        let key = extras + usize::from(self.extras);
        [extras, key, key + usize::from(self.key)]
    }

    pub(in crate::kv) fn framing(&self) -> &[u8] {
        &self.bytes[..usize::from(self.framing)]
    }

    pub(in crate::kv) fn extras(&self) -> &[u8] {
        let [extras, key, _] = self.starts();
        &self.bytes[extras..key]
    }

    pub(in crate::kv) fn key(&self) -> &[u8] {
        let [_, key, value] = self.starts();
        &self.bytes[key..value]
    }

    pub(in crate::kv) fn value(&self) -> &[u8] {
        let [.., value] = self.starts();
        &self.bytes[value..]
    }

    pub(in crate::kv) fn into_value(mut self) -> Bytes {
        let [.., value] = self.starts();
        // Also of an empty value: then nothing keeps the buffer.
        self.bytes.split_off(value)
    }

    pub(in crate::kv) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies it out of the buffer that it shares with other frames.
    pub(in crate::kv) fn detach(&mut self) {
        self.bytes = Bytes::copy_from_slice(&self.bytes);
    }
}

/// A frame that was read from a peer.
#[derive(Clone)]
pub(in crate::kv) struct ReceivedFrame {
    pub(in crate::kv) magic: Magic,
    pub(in crate::kv) opcode: Opcode,
    pub(in crate::kv) datatype: u8,
    pub(in crate::kv) specific: u16,
    pub(in crate::kv) opaque: u32,
    pub(in crate::kv) cas: u64,
    pub(in crate::kv) body: Body,
}

impl ReceivedFrame {
    /// The status, if this is a response.
    pub(in crate::kv) const fn status(&self) -> Status {
        Status(self.specific)
    }

    /// Removes the next frame from the start of `buf`, as [`Frame::decode`] does.
    pub(in crate::kv) fn decode(
        buf: &mut BytesMut,
        max_body: usize,
    ) -> Result<Option<Self>, FrameError> {
        let Some(&first) = buf.first() else {
            return Ok(None);
        };
        let magic = Magic::from_byte(first)?;
        if buf.len() < HEADER_LEN {
            return Ok(None);
        }
        let mut head = &buf[1..HEADER_LEN];
        let opcode = Opcode(head.get_u8());
        let (framing, key) = if magic.is_flex() {
            (head.get_u8(), u16::from(head.get_u8()))
        } else {
            (0, head.get_u16())
        };
        let extras = head.get_u8();
        let datatype = head.get_u8();
        let specific = head.get_u16();
        let body = head.get_u32() as usize;
        let opaque = head.get_u32();
        let cas = head.get_u64();
        if body > max_body {
            return Err(FrameError::BodyTooLong {
                length: body,
                limit: max_body,
            });
        }
        if usize::from(framing) + usize::from(extras) + usize::from(key) > body {
            return Err(FrameError::PartsExceedBody {
                framing: usize::from(framing),
                extras: usize::from(extras),
                key: usize::from(key),
                body,
            });
        }
        // Not the sum, which may be too large for 32 bits.
        if buf.len() - HEADER_LEN < body {
            return Ok(None);
        }
        let mut bytes = buf.split_to(HEADER_LEN + body).freeze();
        bytes.advance(HEADER_LEN);
        Ok(Some(Self {
            magic,
            opcode,
            datatype,
            specific,
            opaque,
            cas,
            body: Body {
                framing,
                extras,
                key,
                bytes,
            },
        }))
    }
}

#[cfg(test)]
impl From<Frame> for ReceivedFrame {
    fn from(sent: Frame) -> Self {
        let mut bytes = BytesMut::new();
        sent.encode(&mut bytes).unwrap();
        Self::decode(&mut bytes, usize::MAX).unwrap().unwrap()
    }
}

impl From<ReceivedFrame> for Frame {
    fn from(received: ReceivedFrame) -> Self {
        let [extras, key, value] = received.body.starts();
        let bytes = received.body.bytes;
        Self {
            magic: received.magic,
            opcode: received.opcode,
            datatype: received.datatype,
            specific: received.specific,
            opaque: received.opaque,
            cas: received.cas,
            framing: bytes.slice(..extras),
            extras: bytes.slice(extras..key),
            key: bytes.slice(key..value),
            value: bytes.slice(value..),
        }
    }
}
