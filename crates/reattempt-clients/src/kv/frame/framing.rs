//! Small encodings inside frames: framing extras, the durations in them, and LEB128 collection ids.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::{FrameError, fits};

/// Framing extra of a request: the durability requirement, as a level and possibly a timeout.
pub(in crate::kv) const FRAME_DURABILITY: u16 = 1;
/// Framing extra of a response: the server duration.
pub const FRAME_SERVER_DURATION: u16 = 0;
/// Framing extra of a response: how long the client should back off.
pub const FRAME_THROTTLE_DURATION: u16 = 3;

/// Appends one framing extra. Id and length are a nibble each; values from 15 use another byte.
pub fn put_framing_extra(out: &mut BytesMut, id: u8, data: &[u8]) -> Result<(), FrameError> {
    fits("framing extra", data.len(), 15 + 0xff)?;
    let length = data.len();
    out.put_u8(id.min(15) << 4 | length.min(15) as u8);
    if id >= 15 {
        out.put_u8(id - 15);
    }
    if length >= 15 {
        out.put_u8((length - 15) as u8);
    }
    out.put_slice(data);
    Ok(())
}

/// Parses framing extras: id and data of each, in order. Ends after an error.
pub const fn framing_extras(bytes: &[u8]) -> FramingExtras<'_> {
    FramingExtras { bytes, at: 0 }
}

/// Created by [`framing_extras`].
#[derive(Clone, Debug)]
pub struct FramingExtras<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FramingExtras<'a> {
    /// A nibble, or from 15 on 15 and one more byte.
    fn number(&mut self, nibble: u8) -> Option<usize> {
        if nibble < 15 {
            return Some(usize::from(nibble));
        }
        let more = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(15 + usize::from(more))
    }

    fn extra(&mut self, first: u8) -> Option<(u16, &'a [u8])> {
        self.at += 1;
        let id = self.number(first >> 4)? as u16;
        let length = self.number(first & 0x0f)?;
        let data = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        Some((id, data))
    }
}

impl<'a> Iterator for FramingExtras<'a> {
    type Item = Result<(u16, &'a [u8]), FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.at;
        let first = *self.bytes.get(offset)?;
        let extra = self.extra(first);
        if extra.is_none() {
            self.at = self.bytes.len();
        }
        Some(extra.ok_or(FrameError::FramingCutOff { offset }))
    }
}

/// Encodes a server duration: 16 bits; their power of 1.74, halved, is microseconds.
pub fn encode_duration(duration: Duration) -> u16 {
    let micros = duration.as_micros().min(u128::from(u64::MAX)) as f64;
    // A cast from float saturates, so a long duration becomes the maximum.
    (micros * 2.0).powf(1.0 / 1.74).round() as u16
}

/// Decodes a server duration, at most about two minutes.
pub fn decode_duration(value: u16) -> Duration {
    Duration::from_micros((f64::from(value).powf(1.74) / 2.0).round() as u64)
}

/// Appends a collection id as unsigned LEB128.
pub fn put_collection_id(out: &mut BytesMut, mut id: u32) {
    while id >= 0x80 {
        out.put_u8(id as u8 | 0x80);
        id >>= 7;
    }
    out.put_u8(id as u8);
}

/// Splits a key that starts with a collection id.
pub fn split_collection_id(key: &Bytes) -> Result<(u32, Bytes), FrameError> {
    let mut id = 0u64;
    for (index, byte) in key.iter().take(5).enumerate() {
        id |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let id = u32::try_from(id).map_err(|_| FrameError::BadCollectionId)?;
            return Ok((id, key.slice(index + 1..)));
        }
    }
    Err(FrameError::BadCollectionId)
}
