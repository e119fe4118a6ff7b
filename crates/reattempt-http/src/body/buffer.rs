//! What the copies of one body share: the source, the frames still needed, and a cursor per copy.

mod reading;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http_body::Body;

use super::BufferBudget;
use super::cursors::{Cursor, Cursors, Standing};
use super::frames::Frames;
use super::wake_all::WakeAll;

#[derive(Debug)]
enum End {
    Open,
    Clean,
    Failed(Arc<dyn std::error::Error + Send + Sync>),
}

/// The state that the copies share, behind a lock.
///
/// A frame is kept only while another copy has not read it. The template, which stays at the start,
/// keeps everything; once it is dropped, a single remaining copy streams directly from the source.
#[derive(Debug)]
pub(super) struct Buffer<B> {
    source: Option<B>,
    end: End,
    frames: Frames,
    cursors: Cursors,
    next_key: u32,
    /// After an overflow or a commit, one copy continues alone.
    committed: bool,
    rare: Option<Box<Rare>>,
    /// A waker is kept, of a copy or of the sender.
    waits: bool,
    fits: bool,
    /// How much the source still has to give, or [`UNSIZED`].
    rest: u64,
}

const PANICKED: &str = "the request's body panicked";

/// The length was not known before anything was read.
const UNSIZED: u64 = u64::MAX;

/// What few bodies need: those of several attempts at once, and those that are not read.
#[derive(Debug, Default)]
struct Rare {
    /// The attempts whose copies returned the cut-off error. At most as many as there were copies
    /// when one continued alone.
    cut_off: Vec<u32>,
    /// The attempts whose copies were dropped before they were read, until the attempts have ended.
    unread: Vec<u32>,
    /// The sender of the copies, which cancels those that are cut off.
    sender: Option<Waker>,
    wake_all: Option<Arc<WakeAll>>,
}

impl<B> Buffer<B> {
    /// The key of the template's cursor.
    pub(super) const TEMPLATE: u32 = 0;

    pub(super) fn new(source: B, limit: usize, budget: Option<BufferBudget>) -> Self
    where
        B: Body,
    {
        // A body known to be too large is not buffered at all.
        let hint = source.size_hint();
        let fits = usize::try_from(hint.lower()).is_ok_and(|least| least <= limit);
        Self {
            source: Some(source),
            end: End::Open,
            frames: Frames::new(limit, budget),
            cursors: Cursors::new(Self::TEMPLATE),
            next_key: Self::TEMPLATE + 1,
            committed: false,
            rare: None,
            waits: false,
            fits,
            rest: hint.exact().unwrap_or(UNSIZED),
        }
    }

    pub(super) fn can_copy(&self) -> bool {
        self.fits
            && !self.committed
            && self.frames.are_whole()
            && !matches!(self.end, End::Failed(_))
    }

    /// The source panicked while it was polled. What follows in it, if anything, is not what should
    /// follow.
    pub(super) fn panicked(&mut self) {
        if matches!(self.end, End::Open) {
            let error = Box::<dyn std::error::Error + Send + Sync>::from(PANICKED);
            self.end = End::Failed(Arc::from(error));
        }
        self.source = None;
    }

    pub(super) fn was_cut_off(&self, attempt: u32) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.cut_off.contains(&attempt))
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Whether this attempt's copies were read no longer matters.
    fn forget_unread(&mut self, attempt: u32) {
        if let Some(rare) = &mut self.rare {
            rare.unread.retain(|unread| *unread != attempt);
        }
    }

    pub(super) fn was_unread(&self, attempt: u32) -> bool {
        let mut of_attempt = self
            .cursors
            .iter()
            .filter(|cursor| cursor.attempt == attempt);
        match of_attempt.next() {
            Some(first) => !first.touched && of_attempt.all(|cursor| !cursor.touched),
            None => {
                let rare = self.rare.as_ref();
                rare.is_some_and(|rare| rare.unread.contains(&attempt))
            }
        }
    }

    pub(super) fn poll_cut_off(&mut self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        let is_it =
            |cursor: &Cursor| cursor.attempt == attempt && cursor.standing == Standing::CutOff;
        if self.cursors.iter().any(is_it) {
            return Poll::Ready(());
        }
        self.waits = true;
        match &mut self.rare().sender {
            Some(sender) => sender.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// A cursor at the start, for this attempt.
    pub(super) fn open(&mut self, attempt: u32) -> u32 {
        // An earlier copy with this number was never sent: a throttle refused its hedge. Whether
        // that copy was read does not matter.
        self.forget_unread(attempt);
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.cursors.add(key, attempt);
        key
    }

    /// A cursor at the position of `of`, for a copy of that copy.
    pub(super) fn copy(&mut self, of: u32, attempt: u32) -> u32 {
        if let Some(cursor) = self.cursor(of) {
            cursor.touched = true;
        }
        self.open(attempt)
    }

    pub(super) fn close(&mut self, key: u32) -> Vec<Waker> {
        if let Some(cursor) = self.cursors.remove(key) {
            if cursor.is_live() && !cursor.touched && cursor.attempt != 0 {
                self.rare().unread.push(cursor.attempt);
            }
        }
        self.trim();
        // If the source was about to wake this copy, another one has to poll it.
        self.waiting()
    }

    /// Leaves the rest to this copy; all others are cut off.
    pub(super) fn commit(&mut self, key: u32) -> Vec<Waker> {
        if !self.committed {
            self.leave_to(key);
        }
        self.waiting()
    }

    fn leave_to(&mut self, key: u32) {
        self.committed = true;
        let ahead = self.cursors.iter().find(|cursor| cursor.key == key);
        let ahead = ahead.map_or(0, |cursor| cursor.attempt);
        for cursor in self.cursors.iter_mut() {
            if cursor.key != key && cursor.is_live() {
                // A copy that the attempt has kept beside this one is of no more use to it.
                cursor.standing = match cursor.attempt == ahead && ahead != 0 {
                    true => Standing::Over,
                    false => Standing::CutOff,
                };
            }
        }
        self.trim();
    }

    /// The attempt has ended, even if its copies still exist.
    pub(super) fn attempt_over(&mut self, attempt: u32) -> Vec<Waker> {
        self.forget_unread(attempt);
        for cursor in self.cursors.iter_mut() {
            if cursor.attempt == attempt && attempt != 0 {
                cursor.standing = Standing::Over;
            }
        }
        self.trim();
        self.waiting()
    }

    #[inline]
    fn waiting(&mut self) -> Vec<Waker> {
        if std::mem::take(&mut self.waits) {
            self.take_wakers()
        } else {
            Vec::new()
        }
    }

    #[cold]
    fn take_wakers(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        if let Some(rare) = &mut self.rare {
            if let Some(all) = &rare.wake_all {
                wakers = all.take();
            }
            if self.committed {
                wakers.extend(rare.sender.take());
            }
            self.waits = rare.sender.is_some();
        }
        wakers.extend(
            self.cursors
                .iter_mut()
                .filter_map(|cursor| cursor.waker.take()),
        );
        wakers
    }

    fn cursor(&mut self, key: u32) -> Option<&mut Cursor> {
        self.cursors.get_mut(key)
    }

    fn live(&self, key: u32) -> Option<&Cursor> {
        self.cursors.get(key).filter(|cursor| cursor.is_live())
    }

    /// Frees what every copy has read.
    #[inline]
    fn trim(&mut self) {
        let live = self.cursors.iter().filter(|cursor| cursor.is_live());
        self.frames.free(live.map(|cursor| cursor.place));
    }
}
