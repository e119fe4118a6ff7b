use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::{CallHandle, DeadlineScope, Elapsed, Stage, StopReason};
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::OnElapsed;
use crate::clock;
use crate::poll::polled_after_completion;

/// A limit that this layer enforces.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) scope: DeadlineScope,
    pub(super) limit: Option<Duration>,
    pub(super) idempotent: bool,
    pub(super) handle: CallHandle,
    /// The limit had passed before anything was sent.
    pub(super) late: bool,
}

pin_project! {
    /// The future of [`Deadline`](super::Deadline). The timer is armed only after the inner future
    /// is pending.
    ///
    /// # Panics
    ///
    /// When it is polled after the deadline ended the call; after the call's own outcome, the inner
    /// future is polled again.
    pub struct DeadlineFuture<F, M> {
        // Dropped first: the state of the call is left to the next one by its last handle, and the
        // options that a layer below attached are in the state that `inner` has.
        armed: Option<Armed>,
        // When the limit ends the call; `None` once the call has its outcome.
        at: Option<Instant>,
        #[pin]
        inner: Option<F>,
        on_elapsed: M,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl<F, M> DeadlineFuture<F, M> {
    #[inline(always)]
    pub(super) fn new(inner: F, armed: Option<(Instant, Armed)>, on_elapsed: M) -> Self {
        let (at, armed) = armed.unzip();
        Self {
            inner: Some(inner),
            sleep: None,
            at,
            armed,
            on_elapsed,
        }
    }

    /// The limit had already passed: nothing was sent.
    #[cold]
    #[inline(never)]
    pub(super) fn too_late(armed: Option<(Instant, Armed)>, on_elapsed: M) -> Self {
        let (at, armed) = armed.unzip();
        Self {
            inner: None,
            sleep: None,
            at,
            armed,
            on_elapsed,
        }
    }
}

impl<F, M> fmt::Debug for DeadlineFuture<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture")
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}

impl<F, M, Res, Err> Future for DeadlineFuture<F, M>
where
    F: Future<Output = Result<Res, Err>>,
    M: OnElapsed<Res, Err>,
{
    type Output = Result<Res, Err>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            // Nothing was sent; or the future has already completed.
            return self.elapsed(cx);
        };
        // The inner future is polled first: a response at the instant of the deadline wins.
        if let Poll::Ready(outcome) = inner.poll(cx) {
            if this.on_elapsed.is_echo(outcome.as_ref()) {
                return Poll::Ready(self.heard(outcome));
            }
            // Disarm: a poll after completion, against the contract, is for the inner future.
            // To drop the handle here would cost 14 instructions more.
            *this.at = None;
            return Poll::Ready(outcome);
        }
        self.elapsed(cx)
    }
}

impl<F, M> DeadlineFuture<F, M> {
    /// The inner future is pending, or nothing was sent: arms the timer, and ends the call when it
    /// fires.
    #[inline(never)]
    fn elapsed<Res, Err>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Res, Err>>
    where
        M: OnElapsed<Res, Err>,
    {
        let mut this = self.project();
        let sent = this.inner.is_some();
        if sent {
            let Some(at) = *this.at else {
                return Poll::Pending;
            };
            if this.sleep.is_none() {
                let at = tokio::time::Instant::from_std(at);
                this.sleep.set(Some(tokio::time::sleep_until(at)));
            }
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                ready!(clock::poll_sleep(sleep, cx));
            }
        }
        let Some(armed) = this.armed.take() else {
            polled_after_completion("DeadlineFuture")
        };
        let ambiguous = sent && !armed.idempotent && armed.handle.in_flight();
        // Dropped before the history is read, so that it includes the cancelled attempts.
        this.inner.set(None);
        let elapsed = armed.elapsed(ambiguous);
        Poll::Ready(this.on_elapsed.on_elapsed(elapsed))
    }

    /// An outcome that may stem from another timer for this deadline.
    #[cold]
    #[inline(never)]
    fn heard<Res, Err>(self: Pin<&mut Self>, outcome: Result<Res, Err>) -> Result<Res, Err>
    where
        M: OnElapsed<Res, Err>,
    {
        let mut this = self.project();
        this.inner.set(None);
        match this.at.zip(this.armed.take()) {
            Some((at, armed)) if clock::now() >= at => {
                // The ended attempt counts as having left the client, unless its record says
                // otherwise.
                let records = armed.handle.info();
                let last = records.records().next_back();
                let stage = last.and_then(|record| Some(record.failure?.stage));
                let not_sent = stage == Some(Stage::Dispatch) && !armed.handle.is_copied();
                let ambiguous = !armed.idempotent && !not_sent;
                this.on_elapsed.on_elapsed(armed.elapsed(ambiguous))
            }
            _ => outcome,
        }
    }
}

impl Armed {
    fn elapsed(self, ambiguous: bool) -> Elapsed {
        match self.scope {
            DeadlineScope::Call => self.handle.stop(StopReason::Deadline),
            DeadlineScope::Attempt => self.handle.own_answer(),
        }
        let elapsed = Elapsed {
            scope: self.scope,
            limit: self.limit,
            ambiguous,
            info: Box::new(self.handle.info()),
        };
        if self.scope == DeadlineScope::Call {
            crate::observe::log::deadline_alone(&self.handle, &elapsed);
        }
        elapsed
    }
}
