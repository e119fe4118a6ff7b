//! HTTP/2 frames (RFC 9113, 4 and 6): a bounded reader, and builders for the frames a server sends.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::ErrorCode;

/// The client connection preface (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum payload in both directions; the default of the protocol.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

const HEADER: usize = 9;

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PUSH_PROMISE: u8 = 0x5;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

pub(crate) const SETTING_MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(crate) const SETTING_INITIAL_WINDOW_SIZE: u16 = 0x4;

/// One frame as received; its payload is not parsed.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Bytes,
}

impl Frame {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without padding, and for HEADERS without the priority fields.
    pub(crate) fn content(&self) -> Result<Bytes, ErrorCode> {
        let mut content = self.payload.clone();
        if self.has(PADDED) {
            let padding = usize::from(*content.first().ok_or(FRAME_SIZE)?);
            content.advance(1);
            let kept = content
                .len()
                .checked_sub(padding)
                .ok_or(ErrorCode::PROTOCOL_ERROR)?;
            content.truncate(kept);
        }
        if self.kind == HEADERS && self.has(WITH_PRIORITY) {
            if content.len() < 5 {
                return Err(FRAME_SIZE);
            }
            content.advance(5);
        }
        Ok(content)
    }

    /// The single 32-bit number in RST_STREAM and WINDOW_UPDATE.
    pub(crate) fn number(&self) -> Result<u32, ErrorCode> {
        <[u8; 4]>::try_from(&*self.payload)
            .map(u32::from_be_bytes)
            .map_err(|_| FRAME_SIZE)
    }
}

const FRAME_SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;

/// Why no further frame can be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The peer closed or broke the connection.
    Closed,
    /// The peer violated the protocol.
    Protocol(ErrorCode),
}

/// Reads frames. Cancel-safe: dropping a pending read loses no data.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// `buffer` holds bytes that were already read from `io`.
    pub(crate) fn new(io: R, buffer: BytesMut) -> Self {
        Self { io, buffer }
    }

    pub(crate) async fn preface(&mut self) -> Result<(), ReadError> {
        self.fill(PREFACE.len()).await?;
        if self.buffer.split_to(PREFACE.len()) == PREFACE {
            Ok(())
        } else {
            Err(ReadError::Protocol(ErrorCode::PROTOCOL_ERROR))
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Frame, ReadError> {
        self.fill(HEADER).await?;
        let mut header = &self.buffer[..HEADER];
        let length = header.get_uint(3) as usize;
        let (kind, flags) = (header.get_u8(), header.get_u8());
        let stream = header.get_u32() & 0x7fff_ffff;
        // Checked before any payload byte is read or allocated.
        if length > MAX_PAYLOAD {
            return Err(ReadError::Protocol(FRAME_SIZE));
        }
        self.fill(HEADER + length).await?;
        self.buffer.advance(HEADER);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Frame {
            kind,
            flags,
            stream,
            payload,
        })
    }

    async fn fill(&mut self, wanted: usize) -> Result<(), ReadError> {
        while self.buffer.len() < wanted {
            self.buffer.reserve(MAX_PAYLOAD);
            match self.io.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(ReadError::Closed),
            }
        }
        Ok(())
    }

    /// Reads and discards until the peer closes.
    pub(crate) async fn drain(&mut self) {
        loop {
            self.buffer.clear();
            if self.fill(1).await.is_err() {
                return;
            }
        }
    }
}

fn put_header(bytes: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    bytes.put_uint(length as u64, 3);
    bytes.put_u8(kind);
    bytes.put_u8(flags);
    bytes.put_u32(stream);
}

/// Encodes one frame. The caller limits `payload` to the size that the peer accepts.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
    put_header(&mut bytes, payload.len(), kind, flags, stream);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// Encodes a header block as HEADERS followed by CONTINUATION frames as needed.
pub(crate) fn headers(stream: u32, block: &[u8], end_stream: bool) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER + block.len());
    let mut kind = HEADERS;
    let mut flags = if end_stream { END_STREAM } else { 0 };
    let mut rest = block;
    loop {
        let (now, later) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        flags |= if later.is_empty() { END_HEADERS } else { 0 };
        put_header(&mut bytes, now.len(), kind, flags, stream);
        bytes.put_slice(now);
        if later.is_empty() {
            return bytes.freeze();
        }
        (rest, kind, flags) = (later, CONTINUATION, 0);
    }
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Bytes {
    let mut payload = BytesMut::new();
    for (name, value) in values {
        payload.put_u16(*name);
        payload.put_u32(*value);
    }
    frame(SETTINGS, 0, 0, &payload)
}

pub(crate) fn reset(stream: u32, code: ErrorCode) -> Bytes {
    frame(RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Bytes {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn go_away(last_stream: u32, code: ErrorCode) -> Bytes {
    let mut payload = BytesMut::new();
    payload.put_u32(last_stream);
    payload.put_u32(code.0);
    frame(GOAWAY, 0, 0, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_header_block_continues_in_further_frames() {
        let block = vec![7; MAX_PAYLOAD + 1];
        let bytes = headers(3, &block, true);
        let mut reader = FrameReader::new(&bytes[..], BytesMut::new());
        let first = reader.next().await.unwrap();
        assert_eq!(
            (first.kind, first.flags, first.payload.len()),
            (HEADERS, END_STREAM, MAX_PAYLOAD)
        );
        let second = reader.next().await.unwrap();
        assert_eq!(
            (second.kind, second.flags, second.stream),
            (CONTINUATION, END_HEADERS, 3)
        );
        assert_eq!(second.payload.len(), 1);
        assert!(matches!(reader.next().await, Err(ReadError::Closed)));
    }

    #[tokio::test]
    async fn a_frame_that_is_too_long_is_refused_by_its_head() {
        let head = [0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1];
        let mut reader = FrameReader::new(&head[..], BytesMut::new());
        assert!(matches!(
            reader.next().await,
            Err(ReadError::Protocol(FRAME_SIZE))
        ));
    }

    #[test]
    fn padding_and_priority_are_taken_off_or_refused() {
        let with = |flags, payload: &'static [u8]| {
            Frame {
                kind: HEADERS,
                flags,
                stream: 1,
                payload: Bytes::from(payload),
            }
            .content()
        };
        assert_eq!(
            with(PADDED | WITH_PRIORITY, b"\x02.....block\0\0").unwrap(),
            "block"
        );
        assert_eq!(with(PADDED, b"\x09block"), Err(ErrorCode::PROTOCOL_ERROR));
        assert_eq!(with(PADDED, b""), Err(FRAME_SIZE));
        assert_eq!(with(WITH_PRIORITY, b"...."), Err(FRAME_SIZE));
    }
}
