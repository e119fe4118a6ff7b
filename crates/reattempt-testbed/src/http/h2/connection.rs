//! One HTTP/2 connection: reads frames, spawns a task per stream, and enforces RFC 9113.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::dispatch::Block;
use super::flow::SendWindows;
use super::frame::{self, FrameReader, ReadError};
use super::hpack::{Decoder, Fields};
use super::stream::{Ended, Inbound, Reply, Stream, Then};
use super::{Bounds, ErrorCode};
use crate::http::ending::{Ending, end};

/// The receive window of each stream, topped up after every DATA frame.
const STREAM_WINDOW: u32 = 1 << 20;
/// The receive window of the connection, beyond the default.
const CONNECTION_WINDOW: u32 = 1 << 24;
/// Writes that may be queued for a slow peer before writers have to wait.
const QUEUE: usize = 64;

/// Serves one connection to its end; `answer` runs once per stream.
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
            // The reader also detects the broken connection. Until then writers must not block.
            while queue.recv().await.is_some() {}
        }
    }
    half
}

pub(super) struct Open {
    pub(super) inbound: mpsc::UnboundedSender<Inbound>,
    pub(super) ended: watch::Sender<Option<Ended>>,
    pub(super) received: usize,
    pub(super) half_closed: bool,
}

pub(super) struct Connection<F> {
    pub(super) bounds: Bounds,
    answer: F,
    writes: mpsc::Sender<Bytes>,
    pub(super) windows: Arc<SendWindows>,
    pub(super) decoder: Decoder,
    pub(super) streams: HashMap<u32, Open>,
    tasks: JoinSet<(u32, Then)>,
    pub(super) last_stream: u32,
    /// Streams above this one were excluded by GOAWAY.
    pub(super) gone_above: Option<u32>,
    pub(super) block: Option<Block>,
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
        // Each task stops at once when its stream has ended, and may still record why.
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
                    // The test's handler panicked: close the connection, so that its client sees a
                    // failure.
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
                    // The response is complete, so the rest of the request is not needed.
                    self.write(frame::reset(id, ErrorCode::NO_ERROR)).await;
                }
            }
            Then::Gone => {}
            Then::GoAway => {
                // Client streams have odd numbers; below the first one there is only 0.
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

    pub(super) fn open(&mut self, id: u32, head: Fields, end_stream: bool) {
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

    pub(super) async fn write(&self, frames: Bytes) {
        // Fails only when the connection has ended.
        let _ = self.writes.send(frames).await;
    }
}
