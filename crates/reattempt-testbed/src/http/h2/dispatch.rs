//! Handling of each frame that the client sends (RFC 9113, 6).

use bytes::{BufMut, BytesMut};

use super::ErrorCode;
use super::connection::{Block, Connection};
use super::frame::{self, Frame};
use super::head::Head;
use super::stream::{Ended, Inbound, Stream, Then};

/// Maximum bytes of a header block, and of the decoded list.
pub(super) const MAX_HEADERS: usize = 64 * 1024;
/// Maximum number of frames of one header block.
const MAX_CONTINUATIONS: usize = 32;

impl<F, A> Connection<F>
where
    F: Fn(Stream) -> A,
    A: Future<Output = Then> + Send + 'static,
{
    pub(super) async fn frame(&mut self, frame: Frame) -> Result<(), ErrorCode> {
        if self.block.is_some() != (frame.kind == frame::CONTINUATION) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let of_stream = matches!(
            frame.kind,
            frame::DATA | frame::HEADERS | frame::PRIORITY | frame::RST_STREAM
        );
        let of_connection = matches!(frame.kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        if (of_stream && frame.stream == 0) || (of_connection && frame.stream != 0) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        match frame.kind {
            frame::DATA => self.data(&frame).await,
            frame::HEADERS => {
                let block = Block {
                    stream: frame.stream,
                    end_stream: frame.has(frame::END_STREAM),
                    bytes: BytesMut::from(&*frame.content()?),
                    continuations: 0,
                };
                self.block(block, frame.has(frame::END_HEADERS)).await
            }
            frame::CONTINUATION => {
                let mut block = self.block.take().ok_or(ErrorCode::PROTOCOL_ERROR)?;
                block.continuations += 1;
                if block.stream != frame.stream {
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                if block.bytes.len() + frame.payload.len() > MAX_HEADERS
                    || block.continuations > MAX_CONTINUATIONS
                {
                    return Err(ErrorCode::ENHANCE_YOUR_CALM);
                }
                block.bytes.put_slice(&frame.payload);
                self.block(block, frame.has(frame::END_HEADERS)).await
            }
            frame::RST_STREAM => {
                let code = ErrorCode(frame.number()?);
                self.refuse_idle(frame.stream)?;
                if let Some(stream) = self.streams.get(&frame.stream) {
                    // A client may answer frames that crossed its first reset with a second reset;
                    // only the first counts.
                    stream.ended.send_if_modified(|ended| {
                        let first = ended.is_none();
                        ended.get_or_insert(Ended::Reset(code));
                        first
                    });
                    self.windows.close(frame.stream);
                }
                Ok(())
            }
            frame::SETTINGS => self.settings(&frame).await,
            frame::PING if frame.payload.len() != 8 => Err(ErrorCode::FRAME_SIZE_ERROR),
            frame::PING => {
                if !frame.has(frame::ACK) {
                    self.write(frame::frame(frame::PING, frame::ACK, 0, &frame.payload))
                        .await;
                }
                Ok(())
            }
            frame::WINDOW_UPDATE => {
                self.refuse_idle(frame.stream)?;
                match frame.number()? & 0x7fff_ffff {
                    0 => Err(ErrorCode::PROTOCOL_ERROR),
                    by => self.windows.grow(frame.stream, by),
                }
            }
            frame::PUSH_PROMISE => Err(ErrorCode::PROTOCOL_ERROR),
            // PRIORITY, the peer's GOAWAY, and unknown frame types.
            _ => Ok(()),
        }
    }

    /// A frame on a stream that was never opened is a protocol error.
    fn refuse_idle(&self, stream: u32) -> Result<(), ErrorCode> {
        let idle = stream > self.last_stream || (stream != 0 && stream % 2 == 0);
        if idle && self.gone_above.is_none() {
            Err(ErrorCode::PROTOCOL_ERROR)
        } else {
            Ok(())
        }
    }

    async fn settings(&mut self, frame: &Frame) -> Result<(), ErrorCode> {
        if frame.has(frame::ACK) {
            return Ok(());
        }
        let values = frame.payload.chunks_exact(6);
        if !values.remainder().is_empty() {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        for value in values {
            let name = u16::from_be_bytes([value[0], value[1]]);
            let number = u32::from_be_bytes([value[2], value[3], value[4], value[5]]);
            // The other settings do not affect a server that neither pushes, indexes nor sends long
            // frames.
            if name == frame::SETTING_INITIAL_WINDOW_SIZE {
                self.windows.set_initial(number)?;
            }
        }
        self.write(frame::frame(frame::SETTINGS, frame::ACK, 0, b""))
            .await;
        Ok(())
    }

    async fn data(&mut self, frame: &Frame) -> Result<(), ErrorCode> {
        self.refuse_idle(frame.stream)?;
        let content = frame.content()?;
        let used = frame.payload.len() as u32;
        if used > 0 {
            self.write(frame::window_update(0, used)).await;
        }
        let Some(stream) = self
            .streams
            .get_mut(&frame.stream)
            .filter(|open| !open.half_closed)
        else {
            return Ok(());
        };
        stream.received += content.len();
        if stream.received > self.bounds.body {
            stream.ended.send_replace(Some(Ended::ByServer));
            stream.half_closed = true;
            self.write(frame::reset(frame.stream, ErrorCode::ENHANCE_YOUR_CALM))
                .await;
            return Ok(());
        }
        // Sending fails only when the body is no longer read.
        let _ = stream.inbound.send(Inbound::Data(content));
        if frame.has(frame::END_STREAM) {
            stream.half_closed = true;
            let _ = stream.inbound.send(Inbound::End);
        } else if used > 0 {
            self.write(frame::window_update(frame.stream, used)).await;
        }
        Ok(())
    }

    async fn block(&mut self, block: Block, complete: bool) -> Result<(), ErrorCode> {
        if !complete {
            self.block = Some(block);
            return Ok(());
        }
        // Also decoded when the fields are not needed: the dynamic table must stay in sync with the
        // peer's.
        let fields = self
            .decoder
            .decode(&block.bytes, MAX_HEADERS)
            .map_err(|_| ErrorCode::COMPRESSION_ERROR)?;
        if block.stream <= self.last_stream {
            // Trailers, or a stream that has ended. The fields are not used.
            if let Some(stream) = self.streams.get_mut(&block.stream) {
                stream.half_closed = true;
                let _ = stream.inbound.send(Inbound::End);
            }
            return Ok(());
        }
        if block.stream % 2 == 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        self.last_stream = block.stream;
        if self.gone_above.is_some_and(|last| block.stream > last) {
            return Ok(());
        }
        if self.streams.len() >= self.bounds.concurrent_streams as usize {
            self.write(frame::reset(block.stream, ErrorCode::REFUSED_STREAM))
                .await;
            return Ok(());
        }
        let Some(head) = Head::of(&fields) else {
            self.write(frame::reset(block.stream, ErrorCode::PROTOCOL_ERROR))
                .await;
            return Ok(());
        };
        self.open(block.stream, head, block.end_stream);
        Ok(())
    }
}
