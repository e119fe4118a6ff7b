//! The messages of one call as a request body with timing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use reattempt_clients::grpc::frame_message;
use tokio::time::{Instant, Sleep};

/// Sends messages with gaps between them, and half-closes some time after the last.
///
/// The times count from the start of the first attempt, as for an application that writes to a
/// stream: messages that fall due while no attempt is in progress are sent with the next one.
#[derive(Debug)]
pub(super) struct Payloads {
    messages: VecDeque<Bytes>,
    gap: Duration,
    half_close_after: Duration,
    /// The time of the next message or of the half-close, counted from the start.
    due: Duration,
    began: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Payloads {
    pub(super) fn new(messages: &[Bytes], gap: Duration, half_close_after: Duration) -> Self {
        let messages: VecDeque<_> = messages
            .iter()
            .map(|message| frame_message(message))
            .collect();
        let due = if messages.is_empty() {
            half_close_after
        } else {
            Duration::ZERO
        };
        Self {
            messages,
            gap,
            half_close_after,
            due,
            began: None,
            pause: None,
        }
    }

    /// Waits until the next item is due.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.due.is_zero() {
            return Poll::Ready(());
        }
        let began = self.began();
        let due = self.due;
        let pause = self.pause.get_or_insert_with(|| {
            Box::pin(tokio::time::sleep(due.saturating_sub(began.elapsed())))
        });
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(())
    }

    fn began(&mut self) -> Instant {
        *self.began.get_or_insert_with(Instant::now)
    }
}

impl Body for Payloads {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.poll_due(cx));
        self.began();
        let Some(message) = self.messages.pop_front() else {
            return Poll::Ready(None);
        };
        let next = if self.messages.is_empty() {
            self.half_close_after
        } else {
            self.gap
        };
        self.due = self.due.saturating_add(next);
        Poll::Ready(Some(Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        // A later half-close is a separate event.
        self.messages.is_empty() && self.half_close_after.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

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
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_fell_due_while_unread_come_at_once() {
        let messages = ["a", "b", "c", "d"].map(Bytes::from);
        let mut body = Payloads::new(&messages, ms(10), ms(0));
        let began = Instant::now();
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(ms(25)).await;
        let mut seen = Vec::new();
        while !body.is_end_stream() {
            body.frame().await.unwrap().unwrap();
            seen.push(began.elapsed());
        }
        assert_eq!(seen, [ms(25), ms(25), ms(30)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_close_can_come_later_also_without_messages() {
        let began = Instant::now();
        let mut body = Payloads::new(&[], ms(10), ms(5));
        assert!(!body.is_end_stream());
        assert!(body.frame().await.is_none());
        assert_eq!(began.elapsed(), ms(5));
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
