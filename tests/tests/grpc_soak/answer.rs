//! The response stream: messages, and one of its possible ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use reattempt_http::body::ReplayBody;
use reattempt_tests::alive::Live;
use tokio::time::Sleep;

use super::fate::{End, Stream};
use super::transport::{Broken, known, of_fault, trailers};
use super::upload::Upload;
use super::world::World;

/// The response messages and the end. Empty for a Trailers-Only response.
#[derive(Debug, Default)]
pub(crate) struct ServerBody {
    going: Option<Going>,
}

#[derive(Debug)]
struct Going {
    _live: Live,
    world: Arc<World>,
    id: u32,
    attempt: u32,
    stream: Stream,
    upload: Option<ReplayBody<Upload>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ServerBody {
    pub(crate) fn begin(
        world: &Arc<World>,
        id: u32,
        attempt: u32,
        stream: Stream,
        upload: Option<ReplayBody<Upload>>,
    ) -> Self {
        Self {
            going: Some(Going {
                _live: Live::one_of(&world.alive.answers),
                world: Arc::clone(world),
                id,
                attempt,
                stream,
                upload,
                pause: None,
            }),
        }
    }
}

impl Going {
    fn poll_pause(&mut self, pause: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if !pause.is_zero() {
            let sleep = self
                .pause
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            ready!(sleep.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// Reads the rest of the request; its failure is not the server's.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(upload) = &mut self.upload {
            if !matches!(ready!(Pin::new(upload).poll_frame(cx)), Some(Ok(_))) {
                self.upload = None;
            }
        }
        Poll::Ready(())
    }

    fn ends(&self, code: i32) {
        self.world.ledger().stream_ends(self.id, code);
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(going) = &mut self.going else {
            return Poll::Ready(None);
        };
        ready!(going.poll_pause(going.stream.gap, cx));
        if going.stream.messages > 0 {
            going.stream.messages -= 1;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"message")))));
        }
        ready!(going.poll_upload(cx));
        let frame = match going.stream.end {
            End::Silence => return Poll::Pending,
            End::Status(code, pushback) => {
                going.ends(known(code));
                Some(Ok(Frame::trailers(trailers(code, pushback))))
            }
            End::Cut(fault) => {
                going.ends(of_fault(fault).0);
                let attempt = going.attempt;
                Some(Err(Broken { fault, attempt }))
            }
            End::NoStatus => {
                going.ends(13);
                None
            }
        };
        self.going = None;
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.going.is_none()
    }
}
