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

/// Parses framing extras: id and data of each, in order.
pub fn framing_extras(bytes: &[u8]) -> Result<Vec<(u16, &[u8])>, FrameError> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let offset = at;
        let cut_off = FrameError::FramingCutOff { offset };
        let mut next = |escape: u8| -> Result<u16, FrameError> {
            if escape < 15 {
                return Ok(u16::from(escape));
            }
            at += 1;
            let more = bytes.get(at).ok_or(FrameError::FramingCutOff { offset })?;
            Ok(15 + u16::from(*more))
        };
        let id = next(bytes[offset] >> 4)?;
        let length = usize::from(next(bytes[offset] & 0x0f)?);
        at += 1;
        let data = bytes.get(at..at + length).ok_or(cut_off)?;
        at += length;
        found.push((id, data));
    }
    Ok(found)
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
