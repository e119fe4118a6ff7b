//! One HTTP/2 connection: reads frames, runs a task per stream, and enforces RFC 9113.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::{Bounds, Connection};
use super::flow::SendWindows;
use super::frame::{self, FrameReader, ReadError};
use super::hpack::Decoder;
use super::stream::{Ended, Stream, Then};
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
}
