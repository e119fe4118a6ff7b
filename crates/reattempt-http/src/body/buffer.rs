//! What the copies of one body share: the source, the frames that somebody still needs, and a cursor a copy.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::kept::Kept;
use super::wake_all::WakeAll;
use super::{BufferBudget, ReplayBodyError};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One copy's place in the body, counted in frames.
#[derive(Debug)]
struct Cursor {
    key: u32,
    /// The attempt that reads here; 0 for the template.
    attempt: u32,
    at: u64,
    polled: bool,
    told_of_error: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum End {
    Open,
    Clean,
    Failed(Arc<dyn std::error::Error + Send + Sync>),
}

/// The next frame of the source itself.
type OfSource<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// The next frame, and whom to wake once the lock is gone.
type Polled = (
    Poll<Option<Result<Frame<Bytes>, ReplayBodyError>>>,
    Vec<Waker>,
);

/// Append-only frames from the slowest copy's place on, behind the shared lock.
///
/// A frame is kept only while another copy has not read it: the template, which sits at the start, keeps
/// everything; once it is gone, the copy that is left streams straight from the source.
#[derive(Debug)]
pub(super) struct Buffer<B> {
    source: Option<B>,
    end: End,
    frames: VecDeque<Kept>,
    /// The number of the first frame kept.
    base: u64,
    kept_bytes: usize,
    limit: usize,
    budget: Option<BufferBudget>,
    cursors: Vec<Cursor>,
    next_key: u32,
    /// The one copy that goes on after an overflow or a commit.
    only: Option<u32>,
    /// The attempts whose copies were told that they have lost. No more than there were copies when one went on alone.
    cut_off: Vec<u32>,
    fits: bool,
    wake_all: Option<Arc<WakeAll>>,
}

impl<B> Buffer<B> {
    pub(super) fn can_copy(&self) -> bool {
        self.fits && self.only.is_none() && self.base == 0 && !matches!(self.end, End::Failed(_))
    }

    pub(super) fn was_cut_off(&self, attempt: u32) -> bool {
        self.cut_off.contains(&attempt)
    }

    /// A cursor at the start, for this attempt.
    pub(super) fn open(&mut self, attempt: u32) -> u32 {
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.cursors.push(Cursor {
            key,
            attempt,
            at: 0,
            polled: false,
            told_of_error: false,
            waker: None,
        });
        key
    }

    pub(super) fn close(&mut self, key: u32) -> Vec<Waker> {
        self.cursors.retain(|cursor| cursor.key != key);
        self.trim();
        // If the source was to wake this one, another has to take its turn.
        self.waiting()
    }

    /// Leaves this copy alone with the rest; all others have lost.
    pub(super) fn commit(&mut self, key: u32) -> Vec<Waker> {
        if self.only.is_none() {
            self.only = Some(key);
            self.trim();
        }
        self.waiting()
    }

    fn waiting(&mut self) -> Vec<Waker> {
        let mut wakers = self
            .wake_all
            .as_ref()
            .map_or_else(Vec::new, |all| all.take());
        wakers.extend(
            self.cursors
                .iter_mut()
                .filter_map(|cursor| cursor.waker.take()),
        );
        wakers
    }

    fn next(&self) -> u64 {
        self.base + self.frames.len() as u64
    }

    fn cursor(&mut self, key: u32) -> Option<&mut Cursor> {
        self.cursors.iter_mut().find(|cursor| cursor.key == key)
    }

    fn place(&self, key: u32) -> u64 {
        let cursor = self.cursors.iter().find(|cursor| cursor.key == key);
        cursor.map_or(u64::MAX, |cursor| cursor.at)
    }

    fn has_lost(&self, key: u32) -> bool {
        self.only.is_some_and(|only| only != key)
    }

    /// Frees what every copy has read.
    fn trim(&mut self) {
        let live = self
            .cursors
            .iter()
            .filter(|cursor| !self.has_lost(cursor.key));
        let slowest = live.map(|cursor| cursor.at).min().unwrap_or(u64::MAX);
        let mut freed = 0;
        while self.base < slowest {
            let Some(frame) = self.frames.pop_front() else {
                break;
            };
            freed += frame.size();
            self.base += 1;
        }
        self.give_back(freed);
    }

    fn give_back(&mut self, bytes: usize) {
        self.kept_bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }

    fn takes(&mut self, bytes: usize) -> bool {
        let fits = self
            .kept_bytes
            .checked_add(bytes)
            .is_some_and(|sum| sum <= self.limit)
            && self
                .budget
                .as_ref()
                .is_none_or(|budget| budget.try_take(bytes));
        if fits {
            self.kept_bytes += bytes;
        }
        fits
    }
}

impl<B> Drop for Buffer<B> {
    fn drop(&mut self) {
        self.give_back(self.kept_bytes);
    }
}

impl<B> Buffer<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(source: B, limit: usize, budget: Option<BufferBudget>) -> Self {
        // A body that is known to be too large is never begun to be kept.
        let fits = usize::try_from(source.size_hint().lower()).is_ok_and(|least| least <= limit);
        Self {
            source: Some(source),
            end: End::Open,
            frames: VecDeque::new(),
            base: 0,
            kept_bytes: 0,
            limit,
            budget,
            cursors: Vec::with_capacity(2),
            next_key: 0,
            only: None,
            cut_off: Vec::new(),
            fits,
            wake_all: None,
        }
    }

    pub(super) fn is_end_stream(&self, key: u32) -> bool {
        !self.has_lost(key)
            && self.place(key) >= self.next()
            && match &self.end {
                End::Open => self.source.as_ref().is_none_or(Body::is_end_stream),
                End::Clean => true,
                End::Failed(_) => false,
            }
    }

    pub(super) fn size_hint(&self, key: u32) -> SizeHint {
        let mut hint = self
            .source
            .as_ref()
            .map_or_else(SizeHint::new, Body::size_hint);
        if matches!(self.end, End::Clean) {
            hint.set_exact(0);
        }
        let read = self.place(key).saturating_sub(self.base);
        let ahead = self
            .frames
            .iter()
            .skip(usize::try_from(read).unwrap_or(usize::MAX));
        let ahead: u64 = ahead
            .map(|frame| match frame {
                Kept::Data(data) => data.len() as u64,
                Kept::Trailers(_) => 0,
            })
            .sum();
        let upper = hint.upper().map(|upper| upper.saturating_add(ahead));
        let lower = hint.lower().saturating_add(ahead);
        let mut sum = SizeHint::new();
        sum.set_lower(lower);
        if let Some(upper) = upper {
            sum.set_upper(upper);
        }
        sum
    }

    pub(super) fn poll_frame(&mut self, key: u32, cx: &mut Context<'_>) -> Polled {
        if self.has_lost(key) {
            let attempt = self.cursor(key).map(|cursor| cursor.attempt);
            if let Some(attempt) = attempt.filter(|attempt| !self.was_cut_off(*attempt)) {
                self.cut_off.push(attempt);
            }
            return (
                Poll::Ready(Some(Err(ReplayBodyError::Abandoned))),
                Vec::new(),
            );
        }
        let (base, next) = (self.base, self.next());
        let Some(cursor) = self.cursor(key) else {
            return (Poll::Ready(None), Vec::new());
        };
        cursor.polled = true;
        if cursor.at < next {
            // Never below the base: a copy that fell behind it has lost.
            let at = usize::try_from(cursor.at.saturating_sub(base)).unwrap_or(usize::MAX);
            cursor.at += 1;
            let frame = self
                .frames
                .get(at)
                .cloned()
                .map(|kept| Ok(kept.into_frame()));
            self.trim();
            return (Poll::Ready(frame), Vec::new());
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
        loop {
            let frame = match self.poll_once(key, cx) {
                Poll::Pending => return (Poll::Pending, Vec::new()),
                Poll::Ready(frame) => frame,
            };
            let kept = match frame {
                None => {
                    self.end = End::Clean;
                    self.source = None;
                    return (Poll::Ready(None), self.waiting());
                }
                Some(Err(error)) => {
                    let error: Arc<dyn std::error::Error + Send + Sync> = Arc::from(error.into());
                    self.end = End::Failed(Arc::clone(&error));
                    self.source = None;
                    let failure = self.failure(key, ReplayBodyError::Body(error));
                    return (Poll::Ready(failure), self.waiting());
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(mut data) => Kept::Data(data.copy_to_bytes(data.remaining())),
                    Err(frame) => match frame.into_trailers() {
                        Ok(map) => Kept::Trailers(map),
                        Err(_) => continue,
                    },
                },
            };
            // Empty frames cost no bytes of any limit, so they are never kept.
            if matches!(&kept, Kept::Data(data) if data.is_empty()) {
                continue;
            }
            self.append(key, &kept);
            return (Poll::Ready(Some(Ok(kept.into_frame()))), self.waiting());
        }
    }

    /// This copy is ahead of all and has read one frame more: keep it if anyone else will need it.
    fn append(&mut self, key: u32, kept: &Kept) {
        let needed = self
            .cursors
            .iter()
            .any(|cursor| cursor.key != key && !self.has_lost(cursor.key));
        if let Some(cursor) = self.cursor(key) {
            cursor.at += 1;
        }
        if needed && self.takes(kept.size()) {
            self.frames.push_back(kept.clone());
            return;
        }
        if needed {
            // Overflow: this copy has sent the most and goes on alone (A6, Memory Management).
            self.only = Some(key);
            self.trim();
        }
        self.base += 1;
    }

    fn poll_once(&mut self, key: u32, cx: &mut Context<'_>) -> OfSource<B> {
        let Some(source) = self.source.as_mut() else {
            return Poll::Ready(None);
        };
        let alone = !self
            .cursors
            .iter()
            .any(|cursor| cursor.polled && cursor.key != key);
        if alone && self.wake_all.is_none() {
            let polled = Pin::new(source).poll_frame(cx);
            if polled.is_pending() {
                if let Some(cursor) = self.cursor(key) {
                    cursor.waker = Some(cx.waker().clone());
                }
            }
            return polled;
        }
        // The source keeps one waker only, and the copy that polled last may have stopped
        // reading: so it wakes all that wait.
        let all = self.wake_all.get_or_insert_default();
        for cursor in &mut self.cursors {
            if let Some(waker) = cursor.waker.take() {
                all.add(&waker);
            }
        }
        all.add(cx.waker());
        let waker = Waker::from(Arc::clone(all));
        Pin::new(source).poll_frame(&mut Context::from_waker(&waker))
    }
}
