//! `SentBody`: counts the bytes that the transport reads from a request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::message_sizes::MessageSizes;

pin_project! {
    /// The request body below an [`AttemptStatsLayer`](super::AttemptStatsLayer). Messages are
    /// counted as the transport reads them. Data, errors and size hint are those of the inner body.
    #[derive(Debug)]
    pub struct SentBody<B> {
        #[pin]
        inner: B,
        sizes: MessageSizes,
        sent: Arc<AtomicU64>,
    }
}

impl<B> SentBody<B> {
    pub(super) fn new(inner: B, sent: Arc<AtomicU64>) -> Self {
        Self {
            inner,
            sizes: MessageSizes::default(),
            sent,
        }
    }
}

impl<B: Body> Body for SentBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = ready!(this.inner.poll_frame(cx));
        if let Some(Ok(frame)) = &polled {
            if let Some(data) = frame.data_ref() {
                this.sent
                    .fetch_add(this.sizes.read(data), Ordering::Relaxed);
            }
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
