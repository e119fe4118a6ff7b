use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use crate::message_limit::with_held;

/// A frame, an error, or the end.
pub(super) type Polled<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

/// The result of the first poll of a body, if it was ready.
pub(super) type First<B> = Option<Polled<B>>;

/// A response body whose first frame may have been read already. Created by
/// [`HoldHeadersLayer`](super::HoldHeadersLayer).
pub struct HeldBody<B: Body> {
    first: First<B>,
    /// `None` once the body has ended; `first` may still hold a frame.
    inner: Option<B>,
}

impl<B: Body> HeldBody<B> {
    pub(super) const fn new(first: First<B>, inner: Option<B>) -> Self {
        Self { first, inner }
    }
}

impl<B: Body> Default for HeldBody<B> {
    /// An empty body.
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl<B: Body> fmt::Debug for HeldBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldBody")
            .field("first", &self.first.is_some())
            .finish_non_exhaustive()
    }
}

// Frames and errors are never pinned here.
impl<B: Body + Unpin> Unpin for HeldBody<B> {}

impl<B: Body + Unpin> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        use bytes::Buf;
        let data = |first: &Polled<B>| {
            let frame = first.as_ref()?.as_ref().ok()?;
            Some(frame.data_ref()?.remaining())
        };
        let first = self.first.as_ref().and_then(data).unwrap_or(0) as u64;
        with_held(self.inner.as_ref(), SizeHint::with_exact(0), first)
    }
}
