//! A copy reads: a kept frame, or the next one of the source.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Buffer, End, Rare, UNSIZED};
use crate::ReplayBodyError;
use crate::body::cursors::Standing;
use crate::body::kept::Fresh;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The next frame of the source.
type OfSource<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// The next frame, and the wakers to wake after the lock is released.
type Polled = (
    Poll<Option<Result<Frame<Bytes>, ReplayBodyError>>>,
    Vec<Waker>,
);

const TOO_SHORT: &str = "the request's body ended before its declared length";
const TOO_LONG: &str = "the request's body did not end at its declared length";

/// Whether a body has no data after this.
fn ends<D, E>(frame: Option<&Result<Frame<D>, E>>) -> bool {
    frame.is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers))
}

/// The maximum of empty frames skipped in one poll, so that other tasks can run.
const MOST_EMPTY: u32 = 32;

impl<B> Buffer<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    pub(in crate::body) fn is_end_stream(&mut self, key: u32) -> bool {
        let is_short = self.is_short();
        let Some(cursor) = self.cursors.get_mut(key).filter(|cursor| cursor.is_live()) else {
            return false;
        };
        let ended = self.frames.is_read(cursor.place)
            && match &self.end {
                // The end of a body that is too short has to be polled: it is an error.
                End::Open => !is_short && self.source.as_ref().is_none_or(Body::is_end_stream),
                End::Clean => true,
                End::Failed(_) => false,
            };
        // The transport sends the end with the head, and does not poll.
        cursor.touched |= ended;
        ended
    }

    pub(in crate::body) fn size_hint(&self, key: u32) -> SizeHint {
        // A copy that ends with an error has no length: a transport that has not written the head
        // yet would announce what another copy left, and a length of zero is a complete request.
        let Some(cursor) = self.live(key) else {
            return SizeHint::new();
        };
        let ahead = self.frames.data_from(cursor.place);
        let has_failed = matches!(self.end, End::Failed(_));
        if self.rest != UNSIZED && !has_failed {
            return SizeHint::with_exact(self.rest.saturating_add(ahead));
        }
        let source = self.source.as_ref().map(Body::size_hint);
        let rest = source.map_or(0, |hint| hint.lower());
        // A stream's length stays unknown, even if it is known by now: a later attempt must look
        // like the first.
        let mut hint = SizeHint::new();
        hint.set_lower(rest.saturating_add(ahead));
        hint
    }

    /// Whether the source has given less than its length.
    const fn is_short(&self) -> bool {
        !matches!(self.rest, 0 | UNSIZED)
    }

    /// Whether the source has given more than its length.
    const fn is_beyond(&self, fresh: &Fresh) -> bool {
        match fresh {
            Fresh::Data(data) => self.rest != UNSIZED && data.len() as u64 > self.rest,
            _ => false,
        }
    }

    /// The source failed.
    #[cold]
    fn failed(&mut self, key: u32, error: BoxError) -> Polled {
        let error: Arc<dyn std::error::Error + Send + Sync> = Arc::from(error);
        self.end = End::Failed(Arc::clone(&error));
        self.source = None;
        let failure = self.failure(key, ReplayBodyError::Body(error));
        (Poll::Ready(failure), self.waiting())
    }

    pub(in crate::body) fn poll_frame(&mut self, key: u32, cx: &mut Context<'_>) -> Polled {
        let Some(cursor) = self.cursors.get_mut(key) else {
            return (Poll::Ready(None), Vec::new());
        };
        if !cursor.is_live() {
            let (attempt, is_cut_off) = (cursor.attempt, cursor.standing == Standing::CutOff);
            if is_cut_off && !self.was_cut_off(attempt) {
                self.rare().cut_off.push(attempt);
            }
            return (
                Poll::Ready(Some(Err(ReplayBodyError::Abandoned))),
                Vec::new(),
            );
        }
        cursor.polled = true;
        cursor.touched = true;
        // This copy is being polled, so its old waker is obsolete.
        cursor.waker = None;
        if let Some(frame) = self.frames.read(&mut cursor.place) {
            self.trim();
            return (Poll::Ready(Some(Ok(frame))), Vec::new());
        }
        match &self.end {
            End::Clean => (Poll::Ready(None), Vec::new()),
            End::Failed(error) => {
                let error = ReplayBodyError::Body(Arc::clone(error));
                (Poll::Ready(self.failure(key, error)), Vec::new())
            }
            End::Open => self.poll_source(key, cx),
        }
    }

    /// The error once, then the end.
    fn failure<T>(
        &mut self,
        key: u32,
        error: ReplayBodyError,
    ) -> Option<Result<T, ReplayBodyError>> {
        let cursor = self.cursor(key)?;
        (!std::mem::replace(&mut cursor.told_of_error, true)).then_some(Err(error))
    }

    fn poll_source(&mut self, key: u32, cx: &mut Context<'_>) -> Polled {
        for _ in 0..MOST_EMPTY {
            let frame = match self.poll_once(key, cx) {
                Poll::Pending => return (Poll::Pending, Vec::new()),
                // A later attempt would be a complete, shorter request.
                Poll::Ready(frame) if self.is_short() && ends(frame.as_ref()) => {
                    Some(Err(TOO_SHORT.into()))
                }
                Poll::Ready(frame) => frame.map(|frame| frame.map_err(Into::into)),
            };
            let fresh = match frame {
                None => {
                    self.end = End::Clean;
                    self.source = None;
                    return (Poll::Ready(None), self.waiting());
                }
                Some(Err(error)) => return self.failed(key, error),
                Some(Ok(frame)) => Fresh::of(frame),
            };
            let Some(fresh) = fresh.filter(|fresh| !fresh.is_empty_data()) else {
                continue;
            };
            // A transport cuts it off at that length, and a later attempt would be longer.
            if self.is_beyond(&fresh) {
                return self.failed(key, TOO_LONG.into());
            }
            self.append(key, &fresh);
            return (Poll::Ready(Some(Ok(fresh.into_frame()))), self.waiting());
        }
        cx.waker().wake_by_ref();
        (Poll::Pending, Vec::new())
    }

    /// This copy is the first to read this frame: keep the frame if another copy will need it.
    fn append(&mut self, key: u32, fresh: &Fresh) {
        if let Fresh::Data(data) = fresh {
            if self.rest != UNSIZED {
                self.rest -= data.len() as u64;
            }
        }
        let needed = self
            .cursors
            .iter()
            .any(|cursor| cursor.key != key && cursor.is_live());
        if needed && self.frames.keep(fresh) {
            let end = self.frames.end();
            if let Some(cursor) = self.cursor(key) {
                cursor.place = end;
            }
            return;
        }
        if needed {
            // Overflow: this copy has sent the most and continues alone (A6, Memory Management).
            self.leave_to(key);
        }
        self.frames.pass();
    }

    fn poll_once(&mut self, key: u32, cx: &mut Context<'_>) -> OfSource<B> {
        let Some(source) = self.source.as_mut() else {
            return Poll::Ready(None);
        };
        let alone = !self
            .cursors
            .iter()
            .any(|cursor| cursor.polled && cursor.key != key);
        let wakes_all = |rare: &Rare| rare.wake_all.is_some();
        if alone && !self.rare.as_deref().is_some_and(wakes_all) {
            let polled = Pin::new(source).poll_frame(cx);
            if polled.is_pending() {
                self.waits = true;
                if let Some(cursor) = self.cursor(key) {
                    cursor.waker = Some(cx.waker().clone());
                }
            }
            return polled;
        }
        // The source keeps only one waker, and the copy that polled last may have stopped reading:
        // so the waker wakes all waiting copies.
        self.waits = true;
        let rare = self.rare.get_or_insert_default();
        let all = rare.wake_all.get_or_insert_default();
        for cursor in self.cursors.iter_mut() {
            if let Some(waker) = cursor.waker.take() {
                all.add(&waker);
            }
        }
        all.add(cx.waker());
        let waker = Waker::from(Arc::clone(all));
        Pin::new(source).poll_frame(&mut Context::from_waker(&waker))
    }
}
