//! One HTTP/2 stream, as seen by the code that answers it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, watch};

use super::flow::SendWindows;
use super::head::Head;
use super::hpack;
use super::{ErrorCode, frame};
use crate::http::ending::Ending;

/// What the peer sends on a stream after the head.
#[derive(Debug)]
pub(crate) enum Inbound {
    Data(Bytes),
    /// The peer half-closed the stream, with or without trailers.
    End,
}

/// Why a stream ended before it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The peer sent RST_STREAM.
    Reset(ErrorCode),
    /// The peer closed or broke the connection.
    Closed,
    /// This server ended it: GOAWAY, a closed connection, or an exceeded bound.
    ByServer,
}

/// What the connection does after the handler of a stream has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The response was written completely.
    Answered,
    /// The stream was already reset by either side.
    Gone,
    /// Sends GOAWAY with NO_ERROR that excludes this stream and all later ones.
    GoAway,
    /// Ends the whole connection.
    End(Ending),
}

/// A stream opened by the peer.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) head: Head,
    pub(crate) body: mpsc::UnboundedReceiver<Inbound>,
    pub(crate) reply: Reply,
    pub(crate) ended: watch::Receiver<Option<Ended>>,
}

/// Resolves when the stream ends before it is answered; may never resolve.
pub(crate) async fn ended(watch: &mut watch::Receiver<Option<Ended>>) -> Ended {
    match watch.wait_for(Option::is_some).await {
        Ok(ended) => ended.unwrap_or(Ended::ByServer),
        Err(_) => Ended::ByServer,
    }
}

/// The sending side of a stream. Frames that can no longer be sent are dropped silently; the
/// stream's `ended` reports the reason.
#[derive(Debug)]
pub(crate) struct Reply {
    id: u32,
    writes: mpsc::Sender<Bytes>,
    windows: Arc<SendWindows>,
    begun: AtomicBool,
}

impl Reply {
    pub(super) fn new(id: u32, writes: mpsc::Sender<Bytes>, windows: Arc<SendWindows>) -> Self {
        Self {
            id,
            writes,
            windows,
            begun: AtomicBool::new(false),
        }
    }

    /// Whether a head was sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) async fn headers(&self, fields: &[(String, Vec<u8>)], end_stream: bool) {
        // Set first: a caller that is dropped while it waits here may have sent them.
        self.begun.store(true, Ordering::Release);
        let frames = frame::headers(self.id, &encode(fields), end_stream);
        self.write(frames).await;
    }

    /// Sends DATA within the peer's flow-control windows.
    pub(crate) async fn data(&self, mut data: Bytes, end_stream: bool) {
        if data.is_empty() && end_stream {
            let frame = frame::frame(frame::DATA, frame::END_STREAM, self.id, b"");
            return self.write(frame).await;
        }
        while !data.is_empty() {
            let Some(taken) = self.windows.take(self.id, data.len()).await else {
                return;
            };
            let now = data.split_to(taken);
            let last = data.is_empty() && end_stream;
            let flags = if last { frame::END_STREAM } else { 0 };
            let frame = frame::frame(frame::DATA, flags, self.id, &now);
            self.write(frame).await;
        }
    }

    /// Writes the first half of the frame that `headers` would write.
    pub(crate) async fn half_headers(&self, fields: &[(String, Vec<u8>)]) {
        let mut frames = frame::headers(self.id, &encode(fields), true);
        frames.truncate(frames.len() / 2);
        self.write(frames).await;
    }

    pub(crate) async fn reset(&self, code: ErrorCode) {
        self.write(frame::reset(self.id, code)).await;
    }

    /// Sends GOAWAY with NO_ERROR that still accepts this stream and earlier ones.
    pub(crate) async fn goodbye(&self) {
        self.write(frame::go_away(self.id, ErrorCode::NO_ERROR))
            .await;
    }

    async fn write(&self, frames: Bytes) {
        // Fails only when the connection has ended.
        let _ = self.writes.send(frames).await;
    }
}

fn encode(fields: &[(String, Vec<u8>)]) -> BytesMut {
    let mut block = BytesMut::new();
    for (name, value) in fields {
        hpack::encode(name.as_bytes(), value, &mut block);
    }
    block
}
