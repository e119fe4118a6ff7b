//! The body of a request on an HTTP/2 stream, which ends with the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use reattempt::{AttemptReporter, Stage};
use tokio::sync::oneshot;

use super::error::TransportError;

/// Whether a body has a known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// If the body knows its length.
    Said,
    /// Never: only a copy of a stream of messages would have a known length, so a retry would
    /// differ from its original.
    Unsaid,
}

/// Reports that its stream has begun: until the server allows one more stream nothing is sent. Ends
/// with its stream: a server that has answered needs no more of the request, and one that answers
/// without half-closing would otherwise be sent messages of an ended attempt.
#[derive(Debug)]
pub(super) struct RequestBody<B> {
    inner: B,
    length: Length,
    over: Option<oneshot::Receiver<Reason>>,
    reporter: Option<AttemptReporter>,
    /// Whether an empty body may end with the request's head.
    ends_with_head: bool,
}

/// Ends the request's body when the answer ends, or when it is dropped before.
#[derive(Debug)]
pub(super) struct EndOfRequest(oneshot::Sender<Reason>);

impl EndOfRequest {
    pub(super) fn with(self, reason: Reason) {
        // Fails when the body was sent completely, as is usual.
        let _ = self.0.send(reason);
    }
}

/// Why a request's body stops; hyper takes the reason of its RST_STREAM from the source.
#[derive(Debug, thiserror::Error)]
#[error("the request is not wanted any more: {what}")]
struct Stopped {
    what: String,
    source: h2::Error,
}

impl Stopped {
    fn by(what: impl ToString, reason: Reason) -> TransportError {
        Box::new(Self {
            what: what.to_string(),
            source: reason.into(),
        })
    }
}

impl<B> RequestBody<B> {
    pub(super) fn new(
        inner: B,
        length: Length,
        reporter: &AttemptReporter,
    ) -> (Self, EndOfRequest) {
        let (end, over) = oneshot::channel();
        let body = Self {
            inner,
            length,
            over: Some(over),
            reporter: Some(reporter.clone()),
            ends_with_head: false,
        };
        (body, EndOfRequest(end))
    }

    /// Saves the frame of an empty body. Without it the body cannot report whether the request was
    /// sent, so this is only for requests where that makes no difference.
    pub(super) const fn may_end_with_its_head(&mut self) {
        self.ends_with_head = matches!(self.length, Length::Said);
    }

    pub(super) fn into_inner(self) -> B {
        self.inner
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<TransportError>,
{
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        if let Some(reporter) = self.reporter.take() {
            reporter.stage(Stage::InFlight);
        }
        let Some(over) = self.over.as_mut() else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(reason) = Pin::new(over).poll(cx) {
            self.over = None;
            // The caller no longer waits for the answer.
            let reason = reason.unwrap_or(Reason::CANCEL);
            return Poll::Ready(Some(Err(Stopped::by("the answer has ended", reason))));
        }
        Pin::new(&mut self.inner).poll_frame(cx).map(|frame| {
            // CANCEL, not INTERNAL_ERROR: another attempt replaces this one (A6, Memory
            // Management).
            let stop = |error: B::Error| Stopped::by(error.into(), Reason::CANCEL);
            frame.map(|frame| frame.map_err(stop))
        })
    }

    fn is_end_stream(&self) -> bool {
        // Otherwise an empty body still ends with a frame of its own, which shows that the stream
        // has begun.
        let begun = self.ends_with_head || self.reporter.is_none();
        begun && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            Length::Said => self.inner.size_hint(),
            Length::Unsaid => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Empty, Full};
    use reattempt::CallContext;

    fn reason(error: &TransportError) -> Option<Reason> {
        let source = error.source()?.downcast_ref::<h2::Error>()?;
        source.reason()
    }

    fn new<B>(body: B, length: Length) -> (RequestBody<B>, EndOfRequest) {
        RequestBody::new(body, length, &CallContext::default().reporter())
    }

    #[tokio::test]
    async fn a_body_ends_with_its_answer_and_says_why() {
        let full = || Full::new(Bytes::from("never sent"));
        let (mut answered, end) = new(full(), Length::Said);
        end.with(Reason::NO_ERROR);
        let error = answered.frame().await.unwrap().unwrap_err();
        assert_eq!(reason(&error), Some(Reason::NO_ERROR));
        assert!(answered.frame().await.is_none());

        let (mut left, end) = new(full(), Length::Said);
        drop(end);
        let error = left.frame().await.unwrap().unwrap_err();
        assert_eq!(reason(&error), Some(Reason::CANCEL));
    }

    #[test]
    fn a_stream_of_messages_does_not_say_its_length() {
        let full = || Full::new(Bytes::from("four"));
        let (sized, _end) = new(full(), Length::Said);
        assert_eq!(sized.size_hint().exact(), Some(4));
        let (stream, _end) = new(full(), Length::Unsaid);
        assert_eq!(stream.size_hint().exact(), None);
    }

    #[tokio::test]
    async fn an_empty_body_ends_in_its_own_frame_unless_the_head_may_end() {
        let (mut sized, _end) = new(Empty::<Bytes>::new(), Length::Said);
        assert!(!sized.is_end_stream());
        sized.may_end_with_its_head();
        assert!(sized.is_end_stream());
        let (mut stream, _end) = new(Empty::<Bytes>::new(), Length::Unsaid);
        stream.may_end_with_its_head();
        assert!(!stream.is_end_stream());
        assert!(stream.frame().await.is_none());
        assert!(stream.is_end_stream());
    }
}
