//! The state of one HTTP/2 connection, and its streams.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::ErrorCode;
use super::flow::SendWindows;
use super::frame;
use super::head::Head;
use super::hpack::Decoder;
use super::stream::{Ended, Inbound, Reply, Stream, Then};
use crate::http::ending::Ending;

/// Limits of one HTTP/2 connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) concurrent_streams: u32,
    pub(crate) body: usize,
}

/// A header block that is not complete yet.
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    pub(super) bytes: BytesMut,
    pub(super) continuations: usize,
}

pub(super) struct Open {
    pub(super) inbound: mpsc::UnboundedSender<Inbound>,
    pub(super) ended: watch::Sender<Option<Ended>>,
    pub(super) received: usize,
    pub(super) half_closed: bool,
}

pub(super) struct Connection<F> {
    pub(super) bounds: Bounds,
    pub(super) answer: F,
    pub(super) writes: mpsc::Sender<Bytes>,
    pub(super) windows: Arc<SendWindows>,
    pub(super) decoder: Decoder,
    pub(super) streams: HashMap<u32, Open>,
    pub(super) tasks: JoinSet<(u32, Then)>,
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
    pub(super) async fn done(&mut self, id: u32, then: Then) -> Option<Ending> {
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

    pub(super) fn open(&mut self, id: u32, head: Head, end_stream: bool) {
        let (inbound, body) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        if end_stream {
            let _ = inbound.send(Inbound::End);
        }
        self.windows.open(id);
        let reply = Reply::new(id, self.writes.clone(), Arc::clone(&self.windows));
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
