//! `ReplayBody`: a request body that several attempts can read, sequentially or concurrently.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use reattempt::{NextAttempt, Replay};

use super::buffer::Buffer;
use super::{BufferBudget, DEFAULT_BYTES_PER_CALL};
use crate::ReplayBodyError;

/// A request body that can be sent more than once (A6, Memory Management).
///
/// Copies share an append-only buffer with a cursor each. The copy that is furthest ahead reads
/// from the wrapped body; frames are kept only while another copy needs them. The copy that stays
/// as the template keeps all of them; without it (no further attempt possible, or the response has
/// arrived) the body streams directly and the buffer is freed.
///
/// If a frame does not fit the limits, the copy that read it continues alone, without buffering,
/// and the body [cannot be replayed](Replay::can_replay) from then on; other copies end with
/// [`ReplayBodyError::Abandoned`].
///
/// Trailers are replayed too, an empty body costs nothing, and a known length stays known: a body
/// that ends before it fails, and so does one that goes on after it, if the transport reads on. A
/// body that panicked fails for all copies. `B` has to be `Unpin`; use `Box::pin` otherwise.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full};
/// use reattempt::{AttemptKind, NextAttempt, Replay};
/// use reattempt_http::body::ReplayBody;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let template = ReplayBody::new(Full::new(Bytes::from("order")));
/// let next = NextAttempt::new(1, AttemptKind::Initial, None);
/// for _ in 0..2 {
///     let attempt = template.replay(&next).expect("it fits");
///     assert_eq!(attempt.collect().await.unwrap().to_bytes(), "order");
/// }
/// # }
/// ```
pub struct ReplayBody<B>(Copied<B>);

enum Copied<B> {
    /// A body without content.
    Empty,
    Open {
        shared: Arc<Mutex<Buffer<B>>>,
        key: u32,
    },
    /// A template that is no longer needed.
    Released,
}

/// The lock is poisoned if the wrapped body panicked.
fn lock<B>(shared: &Mutex<Buffer<B>>) -> MutexGuard<'_, Buffer<B>> {
    let locked = shared.lock();
    locked.unwrap_or_else(|poisoned| panicked(shared, poisoned.into_inner()))
}

#[cold]
fn panicked<'a, B>(
    shared: &Mutex<Buffer<B>>,
    mut buffer: MutexGuard<'a, Buffer<B>>,
) -> MutexGuard<'a, Buffer<B>> {
    shared.clear_poison();
    buffer.panicked();
    buffer
}

/// After the lock was released.
#[inline]
fn wake(wakers: Vec<Waker>) {
    if !wakers.is_empty() {
        wake_all(wakers);
    }
}

#[cold]
fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl<B> ReplayBody<B>
where
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Buffers at most 256 KiB for further attempts, without a budget.
    #[must_use]
    pub fn new(body: B) -> Self {
        Self::with_limits(body, DEFAULT_BYTES_PER_CALL, None)
    }

    /// Buffers at most `bytes`, taken from the budget. With zero only an empty body can be
    /// replayed.
    #[must_use]
    pub fn with_limits(body: B, bytes: usize, budget: Option<BufferBudget>) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let most = budget.as_ref().map_or(bytes, |all| bytes.min(all.bytes()));
        Self(Copied::Open {
            shared: Arc::new(Mutex::new(Buffer::new(body, most, budget))),
            key: Buffer::<B>::TEMPLATE,
        })
    }
}

impl<B> ReplayBody<B> {
    /// A body without content.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Copied::Empty)
    }

    /// No further attempt will be made, and this copy continues: frees what is kept for the others,
    /// which end with [`ReplayBodyError::Abandoned`].
    pub fn commit(&self) {
        if let Copied::Open { shared, key } = &self.0 {
            let wakers = lock(shared).commit(*key);
            wake(wakers);
        }
    }

    fn let_go(&mut self) {
        if let Copied::Open { shared, key } = std::mem::replace(&mut self.0, Copied::Released) {
            // The last copy frees the buffer: no other one waits, and none is left to ask.
            if Arc::strong_count(&shared) == 1 {
                return;
            }
            let wakers = lock(&shared).close(key);
            wake(wakers);
        }
    }
}

impl<B> Replay for ReplayBody<B> {
    fn can_replay(&self, _: &NextAttempt<'_>) -> bool {
        match &self.0 {
            Copied::Empty => true,
            Copied::Open { shared, .. } => lock(shared).can_copy(),
            Copied::Released => false,
        }
    }

    fn was_cut_off(&self, attempt: u32) -> bool {
        match &self.0 {
            Copied::Open { shared, .. } => lock(shared).was_cut_off(attempt),
            Copied::Empty | Copied::Released => false,
        }
    }

    fn was_unread(&self, attempt: u32) -> bool {
        match &self.0 {
            Copied::Open { shared, .. } => lock(shared).was_unread(attempt),
            Copied::Empty | Copied::Released => false,
        }
    }

    fn poll_cut_off(&self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            Copied::Open { shared, .. } => lock(shared).poll_cut_off(attempt, cx),
            Copied::Empty | Copied::Released => Poll::Pending,
        }
    }

    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self> {
        match &self.0 {
            Copied::Empty => Some(Self::empty()),
            Copied::Open { shared, key } => {
                let mut buffer = lock(shared);
                let key = buffer.can_copy().then(|| buffer.copy(*key, next.number))?;
                Some(Self(Copied::Open {
                    shared: Arc::clone(shared),
                    key,
                }))
            }
            Copied::Released => None,
        }
    }

    /// Copies of that attempt end with [`ReplayBodyError::Abandoned`].
    fn attempt_over(&self, number: u32) {
        if let Copied::Open { shared, .. } = &self.0 {
            let wakers = lock(shared).attempt_over(number);
            wake(wakers);
        }
    }

    fn release(&mut self) {
        self.let_go();
    }
}

impl<B> Drop for ReplayBody<B> {
    #[inline]
    fn drop(&mut self) {
        if let Copied::Open { .. } = self.0 {
            self.let_go();
        }
    }
}

impl<B> Default for ReplayBody<B> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = f.debug_struct("ReplayBody");
        match &self.0 {
            Copied::Empty => body.field("empty", &true),
            Copied::Open { shared, .. } => body.field("can_replay", &lock(shared).can_copy()),
            Copied::Released => body.field("released", &true),
        };
        body.finish_non_exhaustive()
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = ReplayBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplayBodyError>>> {
        let Copied::Open { shared, key } = &self.0 else {
            return Poll::Ready(None);
        };
        let (polled, wakers) = lock(shared).poll_frame(*key, cx);
        wake(wakers);
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Copied::Open { shared, key } => lock(shared).is_end_stream(*key),
            Copied::Empty | Copied::Released => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Copied::Open { shared, key } => lock(shared).size_hint(*key),
            Copied::Empty | Copied::Released => SizeHint::with_exact(0),
        }
    }
}
