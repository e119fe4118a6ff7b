//! The messages of one call as a request body, each at its time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use reattempt_testbed::grpc::frame_message;
use tokio::time::Sleep;

/// Sends messages with gaps between them, and half-closes some time after the last.
#[derive(Debug)]
pub(super) struct Payloads {
    messages: VecDeque<Bytes>,
    gap: Duration,
    half_close_after: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    half_close_waited: bool,
}

impl Payloads {
    pub(super) fn new(messages: &[Bytes], gap: Duration, half_close_after: Duration) -> Self {
        Self {
            messages: messages
                .iter()
                .map(|message| frame_message(message))
                .collect(),
            gap,
            half_close_after,
            pause: None,
            half_close_waited: half_close_after.is_zero(),
        }
    }

    fn pause(&mut self, time: Duration) {
        if !time.is_zero() {
            self.pause = Some(Box::pin(tokio::time::sleep(time)));
        }
    }
}

impl Body for Payloads {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            if let Some(message) = self.messages.pop_front() {
                if !self.messages.is_empty() {
                    let gap = self.gap;
                    self.pause(gap);
                }
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            if self.half_close_waited {
                return Poll::Ready(None);
            }
            self.half_close_waited = true;
            let wait = self.half_close_after;
            self.pause(wait);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.messages.is_empty() && self.half_close_waited && self.pause.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn messages_go_out_at_their_times_and_then_the_half_close() {
        let messages = [Bytes::from("a"), Bytes::from("bc")];
        let mut body = Payloads::new(&messages, ms(10), ms(5));
        let began = Instant::now();
        let mut seen = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            seen.push((began.elapsed(), data.len()));
            assert!(!body.is_end_stream());
        }
        assert_eq!(seen, [(ms(0), 6), (ms(10), 7)]);
        assert_eq!(began.elapsed(), ms(15));
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn without_pauses_the_last_message_ends_the_stream() {
        let mut body = Payloads::new(&[Bytes::from("a")], ms(0), ms(0));
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
        assert!(body.is_end_stream());
        assert!(Payloads::new(&[], ms(0), ms(0)).is_end_stream());
    }
}
