//! What the copies of one body share: the source, the frames that somebody still needs, and a
//! cursor a copy.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::frames::{Frames, Place};
use super::kept::Fresh;
use super::wake_all::WakeAll;
use super::{BufferBudget, ReplayBodyError};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One copy and how far it has read.
#[derive(Debug)]
struct Cursor {
    key: u32,
    /// The attempt it was made for; 0 for the original.
    attempt: u32,
    place: Place,
    standing: Standing,
    polled: bool,
    /// Something of it may have been sent: it was polled, found to be at its end, or copied in its
    /// turn.
    touched: bool,
    told_of_error: bool,
    waker: Option<Waker>,
}

impl Cursor {
    fn is_live(&self) -> bool {
        self.standing == Standing::Live
    }
}

/// Whether a copy may still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Live,
    /// Another goes on alone.
    CutOff,
    /// Its attempt is over.
    Over,
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

/// So many frames without content are passed over before others get their turn.
const MOST_EMPTY: u32 = 32;

/// What the copies share, behind a lock.
///
/// A frame is kept only while another copy has not read it: the template, which stays at the start,
/// keeps everything; once it is gone, the copy that is left streams straight from the source.
#[derive(Debug)]
pub(super) struct Buffer<B> {
    source: Option<B>,
    end: End,
    frames: Frames,
    cursors: Vec<Cursor>,
    next_key: u32,
    /// After an overflow or a commit one copy goes on alone.
    committed: bool,
    /// The attempts whose copies were told that they are cut off. No more than there were copies
    /// when one went on alone.
    cut_off: Vec<u32>,
    /// The attempts whose copies were dropped before anything of them was read, until they are
    /// over.
    unread: Vec<u32>,
    /// Who sent the copies, and cancels those that are cut off.
    sender: Option<Waker>,
    fits: bool,
    /// The length was known before anything was read.
    sized: bool,
    wake_all: Option<Arc<WakeAll>>,
}

impl<B> Buffer<B> {
    pub(super) fn can_copy(&self) -> bool {
        self.fits
            && !self.committed
            && self.frames.are_whole()
            && !matches!(self.end, End::Failed(_))
    }

    pub(super) fn was_cut_off(&self, attempt: u32) -> bool {
        self.cut_off.contains(&attempt)
    }

    pub(super) fn was_unread(&self, attempt: u32) -> bool {
        let mut of_attempt = self
            .cursors
            .iter()
            .filter(|cursor| cursor.attempt == attempt);
        match of_attempt.next() {
            Some(first) => !first.touched && of_attempt.all(|cursor| !cursor.touched),
            None => self.unread.contains(&attempt),
        }
    }

    pub(super) fn poll_cut_off(&mut self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        let mut cursors = self.cursors.iter();
        if cursors.any(|cursor| cursor.attempt == attempt && cursor.standing == Standing::CutOff) {
            return Poll::Ready(());
        }
        match &mut self.sender {
            Some(sender) => sender.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// A cursor at the start, for this attempt.
    pub(super) fn open(&mut self, attempt: u32) -> u32 {
        // An earlier copy of this number was never sent: a throttle refused its hedge. Whether that
        // copy was read does not matter here.
        self.unread.retain(|unread| *unread != attempt);
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.cursors.push(Cursor {
            key,
            attempt,
            place: Place::default(),
            standing: Standing::Live,
            polled: false,
            touched: false,
            told_of_error: false,
            waker: None,
        });
        key
    }

    /// The same, for a copy of this one.
    pub(super) fn copy(&mut self, of: u32, attempt: u32) -> u32 {
        if let Some(cursor) = self.cursor(of) {
            cursor.touched = true;
        }
        self.open(attempt)
    }

    pub(super) fn close(&mut self, key: u32) -> Vec<Waker> {
        if let Some(at) = self.cursors.iter().position(|cursor| cursor.key == key) {
            let cursor = self.cursors.remove(at);
            if cursor.is_live() && !cursor.touched && cursor.attempt != 0 {
                self.unread.push(cursor.attempt);
            }
        }
        self.trim();
        // If the source was to wake this one, another has to take its turn.
        self.waiting()
    }

    /// Leaves this copy alone with the rest; all others have lost.
    pub(super) fn commit(&mut self, key: u32) -> Vec<Waker> {
        if !self.committed {
            self.leave_to(key);
        }
        self.waiting()
    }

    fn leave_to(&mut self, key: u32) {
        self.committed = true;
        for cursor in &mut self.cursors {
            if cursor.key != key && cursor.is_live() {
                cursor.standing = Standing::CutOff;
            }
        }
        self.trim();
    }

    /// The attempt is over, whoever still holds its copies.
    pub(super) fn attempt_over(&mut self, attempt: u32) -> Vec<Waker> {
        self.unread.retain(|unread| *unread != attempt);
        for cursor in &mut self.cursors {
            if cursor.attempt == attempt && attempt != 0 {
                cursor.standing = Standing::Over;
            }
        }
        self.trim();
        self.waiting()
    }

    fn waiting(&mut self) -> Vec<Waker> {
        let mut wakers = self
            .wake_all
            .as_ref()
            .map_or_else(Vec::new, |all| all.take());
        if self.committed {
            wakers.extend(self.sender.take());
        }
        wakers.extend(
            self.cursors
                .iter_mut()
                .filter_map(|cursor| cursor.waker.take()),
        );
        wakers
    }

    fn cursor(&mut self, key: u32) -> Option<&mut Cursor> {
        self.cursors.iter_mut().find(|cursor| cursor.key == key)
    }

    fn live(&self, key: u32) -> Option<&Cursor> {
        let mut cursors = self.cursors.iter();
        cursors.find(|cursor| cursor.key == key && cursor.is_live())
    }

    /// Frees what every copy has read.
    fn trim(&mut self) {
        let live = self.cursors.iter().filter(|cursor| cursor.is_live());
        self.frames.free(live.map(|cursor| cursor.place));
    }
}

impl<B> Buffer<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(source: B, limit: usize, budget: Option<BufferBudget>) -> Self {
        // A body that is known to be too large is never begun to be kept.
        let hint = source.size_hint();
        let fits = usize::try_from(hint.lower()).is_ok_and(|least| least <= limit);
        Self {
            source: Some(source),
            end: End::Open,
            frames: Frames::new(limit, budget),
            cursors: Vec::with_capacity(2),
            next_key: 0,
            committed: false,
            cut_off: Vec::new(),
            unread: Vec::new(),
            sender: None,
            fits,
            sized: hint.exact().is_some(),
            wake_all: None,
        }
    }

    pub(super) fn is_end_stream(&mut self, key: u32) -> bool {
        let ended = self
            .live(key)
            .is_some_and(|cursor| self.frames.is_read(cursor.place))
            && match &self.end {
                End::Open => self.source.as_ref().is_none_or(Body::is_end_stream),
                End::Clean => true,
                End::Failed(_) => false,
            };
        if let Some(cursor) = self.cursor(key).filter(|_| ended) {
            // A transport that asks sends it with the head, and polls nothing.
            cursor.touched = true;
        }
        ended
    }

    pub(super) fn size_hint(&self, key: u32) -> SizeHint {
        let source = self.source.as_ref().map(Body::size_hint);
        let rest = source.map_or(0, |hint| hint.lower());
        let ahead = self
            .live(key)
            .map_or(0, |cursor| self.frames.data_from(cursor.place));
        let lower = rest.saturating_add(ahead);
        if self.sized && !matches!(self.end, End::Failed(_)) {
            return SizeHint::with_exact(lower);
        }
        // Of a stream the length stays unsaid, also where it is known by now: a later attempt is to
        // look like the first.
        let mut hint = SizeHint::new();
        hint.set_lower(lower);
        hint
    }

    pub(super) fn poll_frame(&mut self, key: u32, cx: &mut Context<'_>) -> Polled {
        let Some(at) = self.cursors.iter().position(|cursor| cursor.key == key) else {
            return (Poll::Ready(None), Vec::new());
        };
        let cursor = &mut self.cursors[at];
        if !cursor.is_live() {
            if cursor.standing == Standing::CutOff && !self.cut_off.contains(&cursor.attempt) {
                self.cut_off.push(cursor.attempt);
            }
            return (
                Poll::Ready(Some(Err(ReplayBodyError::Abandoned))),
                Vec::new(),
            );
        }
        cursor.polled = true;
        cursor.touched = true;
        // Whatever happened since, this one is awake.
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
                Poll::Ready(frame) => frame,
            };
            let fresh = match frame {
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
                Some(Ok(frame)) => Fresh::of(frame),
            };
            let Some(fresh) = fresh.filter(|fresh| !fresh.is_empty_data()) else {
                continue;
            };
            self.append(key, &fresh);
            return (Poll::Ready(Some(Ok(fresh.into_frame()))), self.waiting());
        }
        cx.waker().wake_by_ref();
        (Poll::Pending, Vec::new())
    }

    /// This copy is ahead of all and has read one frame more: keep it if anyone else will need it.
    fn append(&mut self, key: u32, fresh: &Fresh) {
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
            // Overflow: this copy has sent the most and goes on alone (A6, Memory Management).
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
