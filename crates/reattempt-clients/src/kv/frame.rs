//! The 24-byte frame of the memcached binary protocol.
//!
//! Input comes from a peer: lengths are checked before allocation, and an invalid frame ends the
//! connection, because the start of the next frame is unknown.

mod framing;
mod received;

use bytes::{BufMut, Bytes, BytesMut};
use reattempt_couchbase::kv::{Opcode, Status};

pub(super) use framing::FRAME_DURABILITY;
pub use framing::{
    FRAME_SERVER_DURATION, FRAME_THROTTLE_DURATION, FramingExtras, decode_duration,
    encode_duration, framing_extras, put_collection_id, put_framing_extra, split_collection_id,
};
pub(super) use received::{Body, ReceivedFrame};

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 24;

/// Default maximum body, in bytes: a document of 20 MiB and its overhead.
pub const DEFAULT_MAX_BODY: usize = 21 * 1024 * 1024;

/// Datatype bit: the value is JSON.
pub const DATATYPE_JSON: u8 = 0x01;

/// Sent by the server ([`Magic::ServerRequest`]): the cluster configuration changed.
pub const CLUSTERMAP_CHANGED: Opcode = Opcode(0x01);

/// The kind of a frame: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// 0x80: a client's request.
    Request,
    /// 0x81: the response.
    Response,
    /// 0x08: a client's request with framing extras.
    FlexRequest,
    /// 0x18: the response with framing extras.
    FlexResponse,
    /// 0x82: a request made by the server.
    ServerRequest,
    /// 0x83: the client's response to it.
    ServerResponse,
}

impl Magic {
    /// The magic byte.
    pub fn byte(self) -> u8 {
        match self {
            Magic::Request => 0x80,
            Magic::Response => 0x81,
            Magic::FlexRequest => 0x08,
            Magic::FlexResponse => 0x18,
            Magic::ServerRequest => 0x82,
            Magic::ServerResponse => 0x83,
        }
    }

    /// The kind of a magic byte.
    pub fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            0x80 => Magic::Request,
            0x81 => Magic::Response,
            0x08 => Magic::FlexRequest,
            0x18 => Magic::FlexResponse,
            0x82 => Magic::ServerRequest,
            0x83 => Magic::ServerResponse,
            _ => return Err(FrameError::UnknownMagic { byte }),
        })
    }

    fn is_flex(self) -> bool {
        matches!(self, Magic::FlexRequest | Magic::FlexResponse)
    }

    /// Whether this is a response to a client's request.
    pub fn is_response(self) -> bool {
        matches!(self, Magic::Response | Magic::FlexResponse)
    }

    /// Whether this is a client's request.
    pub fn is_request(self) -> bool {
        matches!(self, Magic::Request | Magic::FlexRequest)
    }
}

/// Why bytes are not a valid frame, or a frame cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first byte is not a known magic.
    #[error("byte 0 of a frame is {byte:#04x}, which is no magic of the protocol")]
    UnknownMagic {
        /// The byte.
        byte: u8,
    },
    /// The magic is valid, but not for this direction.
    #[error("a frame of kind {magic:?} is not expected from this peer")]
    UnexpectedMagic {
        /// The kind.
        magic: Magic,
    },
    /// The body is longer than the limit.
    #[error("bytes 8 to 11 of a frame announce a body of {length} bytes, the limit is {limit}")]
    BodyTooLong {
        /// The stated length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The parts are longer than the body.
    #[error(
        "framing extras of {framing}, extras of {extras} and a key of {key} bytes do not fit a body of {body} bytes"
    )]
    PartsExceedBody {
        /// Length of the framing extras.
        framing: usize,
        /// Length of the extras.
        extras: usize,
        /// Length of the key.
        key: usize,
        /// Length of the whole body.
        body: usize,
    },
    /// A part is too long for its length field.
    #[error("the {part} of {length} bytes is too long, the limit is {limit}")]
    PartTooLong {
        /// Which part.
        part: &'static str,
        /// Its length.
        length: usize,
        /// The maximum of the length field.
        limit: usize,
    },
    /// A framing extra extends past the framing extras.
    #[error("the framing extra at byte {offset} of the framing extras is cut off")]
    FramingCutOff {
        /// The offset of the framing extra.
        offset: usize,
    },
    /// A collection id is not an unsigned LEB128 number of 32 bits.
    #[error("the key does not start with a collection id (unsigned LEB128, 32 bits)")]
    BadCollectionId,
}

/// One frame, in either direction. Its parts may be borrowed to be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<T = Bytes> {
    /// The kind. A request or response with framing extras is encoded as a flex frame.
    pub magic: Magic,
    /// The operation.
    pub opcode: Opcode,
    /// Datatype bits of the value, see [`DATATYPE_JSON`].
    pub datatype: u8,
    /// The vbucket of a request, the status of a response.
    pub specific: u16,
    /// The number that matches a response to its request.
    pub opaque: u32,
    /// The CAS of the document.
    pub cas: u64,
    /// The encoded framing extras, see [`framing_extras`].
    pub framing: T,
    /// The extras.
    pub extras: T,
    /// The key.
    pub key: T,
    /// The value.
    pub value: T,
}

impl Frame {
    /// Creates an empty frame.
    pub fn new(magic: Magic, opcode: Opcode, opaque: u32) -> Self {
        Self {
            magic,
            opcode,
            datatype: 0,
            specific: 0,
            opaque,
            cas: 0,
            framing: Bytes::new(),
            extras: Bytes::new(),
            key: Bytes::new(),
            value: Bytes::new(),
        }
    }

    /// The status, if this is a response.
    pub fn status(&self) -> Status {
        Status(self.specific)
    }

    /// Removes the next frame from the start of `buf`; `None` while it is incomplete.
    ///
    /// A wrong magic is detected at the first byte and a wrong length at the header, without
    /// waiting for further bytes. After an error the connection is unusable.
    pub fn decode(buf: &mut BytesMut, max_body: usize) -> Result<Option<Self>, FrameError> {
        Ok(ReceivedFrame::decode(buf, max_body)?.map(Self::from))
    }
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Appends the encoded frame to `out`. On an error nothing is appended.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), FrameError> {
        let parts = [&self.framing, &self.extras, &self.key, &self.value].map(T::as_ref);
        let [framing, extras, key, value] = parts;
        let magic = match (self.magic, framing.is_empty()) {
            (Magic::Request, false) => Magic::FlexRequest,
            (Magic::Response, false) => Magic::FlexResponse,
            (magic, _) => magic,
        };
        let flex = magic.is_flex();
        fits("framing extras", framing.len(), if flex { 0xff } else { 0 })?;
        fits("extras", extras.len(), 0xff)?;
        fits("key", key.len(), if flex { 0xff } else { 0xffff })?;
        let around = framing.len() + extras.len() + key.len();
        fits("value", value.len(), u32::MAX as usize - around)?;
        let body = around + value.len();
        let mut header = [0; HEADER_LEN];
        let mut head = &mut header[..];
        head.put_u8(magic.byte());
        head.put_u8(self.opcode.0);
        if flex {
            head.put_u8(framing.len() as u8);
            head.put_u8(key.len() as u8);
        } else {
            head.put_u16(key.len() as u16);
        }
        head.put_u8(extras.len() as u8);
        head.put_u8(self.datatype);
        head.put_u16(self.specific);
        head.put_u32(body as u32);
        head.put_u32(self.opaque);
        head.put_u64(self.cas);
        out.reserve(HEADER_LEN + body);
        out.put_slice(&header);
        for part in parts {
            out.put_slice(part);
        }
        Ok(())
    }
}

pub(super) fn fits(part: &'static str, length: usize, limit: usize) -> Result<(), FrameError> {
    if length > limit {
        return Err(FrameError::PartTooLong {
            part,
            length,
            limit,
        });
    }
    Ok(())
}
