//! One HTTP/2 connection: reads frames, gives each stream a task, and keeps the rules of RFC 9113.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::flow::SendWindows;
use super::frame::{self, Frame, FrameReader, ReadError};
use super::hpack::{Decoder, Fields};
use super::stream::{Ended, Inbound, Reply, Stream, Then};
use super::{Bounds, ErrorCode};
use crate::http::ending::{Ending, end};

/// Bytes of a header block, and of the list that it decodes to.
const MAX_HEADERS: usize = 64 * 1024;
/// Frames that one header block may be cut into.
const MAX_CONTINUATIONS: usize = 32;
/// The window given for each stream, topped up with every DATA frame.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for the connection, beyond the default.
const CONNECTION_WINDOW: u32 = 1 << 24;
/// Writes that may wait for a slow peer before those who write wait too.
const QUEUE: usize = 64;

/// Serves one connection to its end; `answer` runs once for every stream.
///
/// `read` holds bytes that were already read from the socket.
pub(crate) async fn serve<F, A>(socket: TcpStream, read: BytesMut, bounds: Bounds, answer: F)
where
    F: Fn(Stream) -> A,
    A: Future<Output = Then> + Send + 'static,
{
    let (read_half, write_half) = socket.into_split();
    let mut reader = FrameReader::new(read_half, read);
    let (writes, queue) = mpsc::channel(QUEUE);
    let connection = Connection {
        bounds,
        answer,
        writes,
        windows: Arc::new(SendWindows::new()),
        decoder: Decoder::default(),
        streams: HashMap::new(),
        tasks: JoinSet::new(),
        last_stream: 0,
        gone_above: None,
        block: None,
    };
    // The writer ends when the last sender is dropped, which `run` does at its end.
    let (ending, write_half) = tokio::join!(connection.run(&mut reader), write(queue, write_half));
    end(ending, write_half, reader.drain()).await;
}

async fn write(mut queue: mpsc::Receiver<Bytes>, mut half: OwnedWriteHalf) -> OwnedWriteHalf {
    while let Some(frames) = queue.recv().await {
        if half.write_all(&frames).await.is_err() {
            // The reader meets the broken connection too; until then nobody may wait for us.
            while queue.recv().await.is_some() {}
        }
    }
    half
}

struct Open {
    inbound: mpsc::UnboundedSender<Inbound>,
    ended: watch::Sender<Option<Ended>>,
    received: usize,
    half_closed: bool,
}

/// A header block of which more frames must come.
struct Block {
    stream: u32,
    end_stream: bool,
    bytes: BytesMut,
    continuations: usize,
}

struct Connection<F> {
    bounds: Bounds,
    answer: F,
    writes: mpsc::Sender<Bytes>,
    windows: Arc<SendWindows>,
    decoder: Decoder,
    streams: HashMap<u32, Open>,
    tasks: JoinSet<(u32, Then)>,
    last_stream: u32,
    /// Streams above this one were said goodbye to by GOAWAY.
    gone_above: Option<u32>,
    block: Option<Block>,
}

impl<F, A> Connection<F>
where
    F: Fn(Stream) -> A,
    A: Future<Output = Then> + Send + 'static,
{
    async fn run(mut self, reader: &mut FrameReader<OwnedReadHalf>) -> Ending {
        let settings = frame::settings(&[
            (
                frame::SETTING_MAX_CONCURRENT_STREAMS,
                self.bounds.concurrent_streams,
            ),
            (frame::SETTING_INITIAL_WINDOW_SIZE, STREAM_WINDOW),
        ]);
        self.write(settings).await;
        self.write(frame::window_update(0, CONNECTION_WINDOW)).await;
        let ending = match reader.preface().await {
            Ok(()) => self.read(reader).await,
            Err(error) => Err(error),
        };
        let (ended, ending) = match ending {
            Ok(ending) => (Ended::ByServer, ending),
            Err(ReadError::Closed) => (Ended::Closed, Ending::Gone),
            Err(ReadError::Protocol(code)) => {
                self.write(frame::go_away(self.last_stream, code)).await;
                (Ended::ByServer, Ending::Close)
            }
        };
        for stream in self.streams.values() {
            stream.ended.send_replace(Some(ended));
        }
        // Each task stops at once when its stream has ended, and may still note down why.
        while self.tasks.join_next().await.is_some() {}
        ending
    }

    async fn read(&mut self, reader: &mut FrameReader<OwnedReadHalf>) -> Result<Ending, ReadError> {
        loop {
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => match done {
                    Ok((id, then)) => {
                        if let Some(ending) = self.done(id, then).await {
                            return Ok(ending);
                        }
                    }
                    // The test's own handler panicked: its client should see that something broke.
                    Err(_) => return Ok(Ending::Close),
                },
                frame = reader.next() => self.frame(frame?).await.map_err(ReadError::Protocol)?,
            }
        }
    }

    async fn done(&mut self, id: u32, then: Then) -> Option<Ending> {
        self.windows.close(id);
        let open = self.streams.remove(&id);
        match then {
            Then::Answered => {
                if open.is_some_and(|open| !open.half_closed) {
                    // The answer is complete, so the rest of the request is not wanted.
                    self.write(frame::reset(id, ErrorCode::NO_ERROR)).await;
                }
            }
            Then::Gone => {}
            Then::GoAway => {
                // Streams of a client have odd numbers; below the first one there is only 0.
                let last = id
                    .saturating_sub(2)
                    .min(self.gone_above.unwrap_or(u32::MAX));
                self.gone_above = Some(last);
                self.write(frame::go_away(last, ErrorCode::NO_ERROR)).await;
                for (_, stream) in self.streams.iter().filter(|(id, _)| **id > last) {
                    stream.ended.send_replace(Some(Ended::ByServer));
                }
            }
            Then::End(ending) => return Some(ending),
        }
        None
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), ErrorCode> {
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
                    stream.ended.send_replace(Some(Ended::Reset(code)));
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
            // PRIORITY, the peer's GOAWAY, and kinds that this server does not know.
            _ => Ok(()),
        }
    }

    /// Frames on a stream that was never opened break the protocol.
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
            // The others do not touch a server that neither pushes, indexes nor sends long frames.
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
        // Sending fails only when nobody reads the body any more.
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
        // Also decoded when nobody wants it: the table must stay in step with the peer's.
        let fields = self
            .decoder
            .decode(&block.bytes, MAX_HEADERS)
            .map_err(|_| ErrorCode::COMPRESSION_ERROR)?;
        if block.stream <= self.last_stream {
            // Trailers, or a stream that is over. Their fields are of no use here.
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
        self.open(block.stream, fields, block.end_stream);
        Ok(())
    }

    fn open(&mut self, id: u32, head: Fields, end_stream: bool) {
        let (inbound, body) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        if end_stream {
            let _ = inbound.send(Inbound::End);
        }
        self.windows.open(id);
        let reply = Reply {
            id,
            writes: self.writes.clone(),
            windows: Arc::clone(&self.windows),
        };
        let answer = (self.answer)(Stream {
            id,
            head,
            body,
            reply,
            ended,
        });
        self.tasks.spawn(async move { (id, answer.await) });
        let open = Open {
            inbound,
            ended: end,
            received: 0,
            half_closed: end_stream,
        };
        self.streams.insert(id, open);
    }

    async fn write(&self, frames: Bytes) {
        // Fails only when the connection is over.
        let _ = self.writes.send(frames).await;
    }
}
