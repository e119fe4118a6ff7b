//! A stream that tells how far the client has read it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// What the client has read of a [`Watched`] body.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: bool,
    /// The body, if it came in one piece.
    whole: Option<Bytes>,
}

impl Reading {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if nothing was read of the body, and an empty one was not asked for its length since
    /// [`handed_over`](Self::handed_over).
    pub(super) fn has_begun(&self) -> bool {
        self.state().begun
    }

    /// The client has the request, and has not sent it: what it asked the body so far was for its
    /// own layers.
    pub(super) fn handed_over(&self) {
        self.state().begun = false;
    }

    fn begin(&self) {
        self.state().begun = true;
    }

    /// The body, if it was read in one piece; once.
    pub(super) fn take_whole(&self) -> Option<Bytes> {
        self.state().whole.take()
    }
}

/// A body that is handed over as a stream, and notes in its [`Reading`] what is read of it.
///
/// A body without content is sent together with the head, and never read. But before a transport
/// writes a head it has to ask whether a body follows, and how long it is; hyper asks once it has a
/// connection to write to.
pub(super) struct Watched<B> {
    inner: B,
    reading: Arc<Reading>,
    is_empty: bool,
    /// The length to compare the first piece with, if it is kept.
    keeps: Option<u64>,
}

impl<B: Body> Watched<B> {
    /// `keeps`: whether a body in one piece is kept for one more time.
    pub(super) fn new(inner: B, reading: &Arc<Reading>, keeps: bool) -> Self {
        let length = inner.size_hint().exact();
        Self {
            is_empty: inner.is_end_stream() || length == Some(0),
            inner,
            reading: Arc::clone(reading),
            keeps: length.filter(|length| keeps && *length > 0),
        }
    }
}

impl<B> Body for Watched<B>
where
    B: Body<Data: Into<Bytes>> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        this.reading.begin();
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        polled.map_ok(|frame| {
            let frame = frame.map_data(Into::into);
            let length = this.keeps.take();
            let whole = frame
                .data_ref()
                .filter(|data| length == Some(data.len() as u64));
            if let Some(whole) = whole {
                this.reading.state().whole = Some(Bytes::clone(whole));
            }
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        if self.is_empty {
            self.reading.begin();
        }
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_empty {
            self.reading.begin();
        }
        self.inner.size_hint()
    }
}
