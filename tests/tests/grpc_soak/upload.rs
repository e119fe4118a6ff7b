//! The caller's request body: a sequence of frames, with a count of live bodies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rand::Rng;
use rand::rngs::SmallRng;
use reattempt_clients::grpc::frame_message;
use reattempt_tests::alive::Live;
use tokio::time::Sleep;
use tower::BoxError;

/// The plan of a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadPlan {
    pub(crate) frames: u32,
    pub(crate) bytes_a_frame: usize,
    pub(crate) gap: Duration,
    /// Its length is known from the start.
    pub(crate) sized: bool,
    /// It fails after its frames.
    pub(crate) fails: bool,
}

impl UploadPlan {
    pub(crate) fn draw(rng: &mut SmallRng) -> Self {
        let gap = if rng.random_ratio(1, 4) {
            rng.random_range(1..5)
        } else {
            0
        };
        Self {
            frames: rng.random_range(0..5),
            bytes_a_frame: if rng.random_ratio(1, 6) { 40 } else { 10 },
            gap: Duration::from_millis(gap),
            sized: rng.random_ratio(1, 2),
            fails: rng.random_ratio(1, 40),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.frames as usize * self.bytes_a_frame
    }

    /// Nothing is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0 && !self.fails
    }

    pub(crate) fn begin(self, live: &Arc<AtomicI64>) -> Upload {
        Upload {
            plan: self,
            left: self.frames,
            pause: None,
            _live: Live::one_of(live),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Upload {
    plan: UploadPlan,
    left: u32,
    pause: Option<Pin<Box<Sleep>>>,
    _live: Live,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            let fails = std::mem::take(&mut self.plan.fails);
            return Poll::Ready(fails.then(|| Err("the caller's own body failed".into())));
        }
        if !self.plan.gap.is_zero() {
            let gap = self.plan.gap;
            let pause = self
                .pause
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(gap)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        self.left -= 1;
        // Whole messages, with the five-byte prefix.
        let message = &[b'a'; 64][..self.plan.bytes_a_frame - 5];
        Poll::Ready(Some(Ok(Frame::data(frame_message(message)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && !self.plan.fails
    }

    fn size_hint(&self) -> SizeHint {
        if self.plan.sized {
            SizeHint::with_exact(self.left as u64 * self.plan.bytes_a_frame as u64)
        } else {
            SizeHint::new()
        }
    }
}
