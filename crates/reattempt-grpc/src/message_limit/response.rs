use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::{CallHandle, StopReason};

use super::link::CallSide;
use super::prefixes::{Out, Sieve};
use super::request::{is_empty, with_held};
use super::{MessageSide, MessageTooLong};
use crate::Code;
use crate::made_status::trailers;

pub(super) struct Watched {
    /// `None` if only requests are limited.
    pub(super) sieve: Option<(Sieve, u64)>,
    pub(super) call: CallSide,
    pub(super) handle: CallHandle,
}

pin_project! {
    /// A response body with limited messages. Created by
    /// [`MessageLimitLayer`](super::MessageLimitLayer).
    ///
    /// At a message that is too long the inner body is dropped, which cancels its stream, and this
    /// body ends with RESOURCE_EXHAUSTED in trailers.
    pub struct LimitedResponseBody<B> {
        #[pin]
        inner: Option<B>,
        // Boxed: few calls have a limit, and all move the body.
        watched: Option<Box<Watched>>,
    }
}

impl<B> LimitedResponseBody<B> {
    pub(super) fn new(inner: B, watched: Option<Watched>) -> Self {
        Self {
            inner: Some(inner),
            watched: watched.map(Box::new),
        }
    }

    fn sieve(&self) -> Option<&Sieve> {
        Some(&self.watched.as_ref()?.sieve.as_ref()?.0)
    }
}

impl<B> Default for LimitedResponseBody<B> {
    /// An empty body.
    fn default() -> Self {
        Self {
            inner: None,
            watched: None,
        }
    }
}

impl<B> fmt::Debug for LimitedResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedResponseBody")
            .field("limited", &self.watched.is_some())
            .finish_non_exhaustive()
    }
}

impl<B: Body> LimitedResponseBody<B> {
    fn cut(self: Pin<&mut Self>, too_long: MessageTooLong) -> Frame<Bytes> {
        let mut this = self.project();
        this.inner.set(None);
        if let Some(watched) = this.watched.take() {
            watched.handle.response_failed(StopReason::Fatal);
        }
        Frame::trailers(trailers(Code::ResourceExhausted, &too_long.to_string()))
    }
}

impl<B: Body> Body for LimitedResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.as_mut().project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let plain =
            |frame: Frame<B::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        let Some(watched) = this.watched else {
            let frame = ready!(inner.poll_frame(cx));
            return Poll::Ready(frame.map(|frame| frame.map(plain)));
        };
        if let Some(too_long) = watched.call.poll_too_long(cx) {
            return Poll::Ready(Some(Ok(self.cut(too_long))));
        }
        loop {
            if let Some((sieve, limit)) = &mut watched.sieve {
                match sieve.pop() {
                    Some(Out::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Some(Out::Trailers(map)) => return Poll::Ready(Some(Ok(Frame::trailers(map)))),
                    Some(Out::TooLong(bytes)) => {
                        let too_long = MessageTooLong {
                            side: MessageSide::Response,
                            bytes,
                            limit: *limit,
                        };
                        return Poll::Ready(Some(Ok(self.cut(too_long))));
                    }
                    None => {}
                }
            }
            let frame = ready!(inner.as_mut().poll_frame(cx));
            if !matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
                watched.call.done();
            }
            match (frame, &mut watched.sieve) {
                // An empty frame passes: a flood of them must not keep this poll from ending.
                (Some(Ok(frame)), Some((sieve, _))) if !is_empty(&frame) => sieve.push(frame),
                (None, Some((sieve, _))) if !sieve.is_empty() => {
                    this.inner.set(None);
                    sieve.end();
                    let Some(Out::Data(part)) = sieve.pop() else {
                        return Poll::Ready(None);
                    };
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                (frame, _) => return Poll::Ready(frame.map(|frame| frame.map(plain))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sieve().is_none_or(Sieve::is_empty)
            && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.sieve().map_or(0, Sieve::held);
        with_held(self.inner.as_ref(), SizeHint::with_exact(0), held)
    }
}
