use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt_http::CallOver;

use super::link::Link;
use super::prefixes::{Out, Sieve};
use super::{MessageSide, MessageTooLong};

/// What a body gives.
type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Watched {
    /// `None` if only responses are limited.
    pub(super) sieve: Option<(Sieve, u64)>,
    pub(super) link: Link,
    pub(super) tripped: bool,
}

pin_project! {
    /// A request body with limited messages. Created by
    /// [`MessageLimitLayer`](super::MessageLimitLayer).
    ///
    /// A message that is too long ends the call. The call's future is notified first; until it
    /// drops the attempts this body stays pending. It also ends with an error, so that the
    /// transport resets the stream, if the call is over before its response ended.
    pub struct LimitedRequestBody<B> {
        // Until it has ended, or a message is too long: who feeds it learns that it is not read
        // any more.
        #[pin]
        inner: Option<B>,
        // Boxed: few calls have a limit, and all move the body.
        watched: Option<Box<Watched>>,
    }
}

impl<B> LimitedRequestBody<B> {
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

impl<B> fmt::Debug for LimitedRequestBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedRequestBody")
            .field("limited", &self.watched.is_some())
            .finish_non_exhaustive()
    }
}

/// The next frame of a body that has not ended.
fn next<B: Body>(inner: Pin<&mut Option<B>>, cx: &mut Context<'_>) -> Polled<B> {
    match inner.as_pin_mut() {
        Some(inner) => inner.poll_frame(cx),
        None => Poll::Ready(None),
    }
}

pub(super) fn is_empty<D: Buf>(frame: &Frame<D>) -> bool {
    frame.data_ref().is_some_and(|data| !data.has_remaining())
}

fn plain<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

impl<B> Body for LimitedRequestBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        let Some(watched) = this.watched else {
            let frame = ready!(next(this.inner, cx));
            return Poll::Ready(frame.map(|frame| frame.map(plain).map_err(Into::into)));
        };
        if watched.link.poll_over(cx) {
            return Poll::Ready(Some(Err(CallOver.into())));
        }
        if watched.tripped {
            return Poll::Pending;
        }
        let Some((sieve, limit)) = &mut watched.sieve else {
            let frame = ready!(next(this.inner, cx));
            return Poll::Ready(frame.map(|frame| frame.map(plain).map_err(Into::into)));
        };
        loop {
            match sieve.pop() {
                Some(Out::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Out::Trailers(map)) => return Poll::Ready(Some(Ok(Frame::trailers(map)))),
                Some(Out::TooLong(bytes)) => {
                    watched.tripped = true;
                    this.inner.set(None);
                    watched.link.trip(MessageTooLong {
                        side: MessageSide::Request,
                        bytes,
                        limit: *limit,
                    });
                    if watched.link.poll_over(cx) {
                        return Poll::Ready(Some(Err(CallOver.into())));
                    }
                    return Poll::Pending;
                }
                None => {}
            }
            match ready!(next(this.inner.as_mut(), cx)) {
                // An empty frame passes: a flood of them must not keep this poll from ending.
                Some(Ok(frame)) if is_empty(&frame) => {
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
                }
                Some(Ok(frame)) => sieve.push(frame),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None if sieve.is_empty() => return Poll::Ready(None),
                None => {
                    this.inner.set(None);
                    sieve.end();
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let tripped = self.watched.as_ref().is_some_and(|watched| watched.tripped);
        !tripped
            && self.sieve().is_none_or(Sieve::is_empty)
            && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.sieve().map_or(0, Sieve::held);
        with_held(self.inner.as_ref(), SizeHint::new(), held)
    }
}

/// The bytes that are buffered, plus the size hint of the rest, or this one if that was dropped.
pub(crate) fn with_held<B: Body>(rest: Option<&B>, dropped: SizeHint, held: u64) -> SizeHint {
    let rest = rest.map_or(dropped, Body::size_hint);
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(held));
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(held));
    }
    hint
}
