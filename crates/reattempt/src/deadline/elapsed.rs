//! How a deadline ends a call: the outcome for the caller.

use std::fmt;
use std::pin::Pin;

use super::{Armed, DeadlineFuture, Ends};
use crate::clock;
use crate::poll::polled_after_completion;
use crate::{DeadlineScope, Elapsed, Idempotency, Stage, StopReason};

/// Makes the outcome for the caller when the deadline has passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn an elapsed deadline into `Result<{Res}, {Err}>`",
    note = "put `ClientErrorLayer` directly above the transport: its error type has room for `Elapsed`, and for the transport's own error; or, if your classifier reads the error itself, directly below this layer",
    note = "or put `.map_err(BoxError::from)` between the DeadlineLayer and the layers below it; or implement `From<Elapsed>` for an error type of your own"
)]
pub trait OnElapsed<Res, Err> {
    /// The outcome that replaces the missing one.
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err>;

    /// True for an outcome that is not a response but may stem from another timer for the same
    /// deadline: if the deadline has passed when it arrives, [`on_elapsed`](Self::on_elapsed)
    /// replaces it. By default no outcome is.
    ///
    /// A server and a transport that know the deadline have timers of their own, which may fire
    /// first.
    fn is_echo(&self, outcome: Result<&Res, &Err>) -> bool {
        let _ = outcome;
        false
    }
}

/// Returns an error made from [`Elapsed`], or from [`Refused`](crate::admission::Refused).
#[derive(Clone, Copy, Debug, Default)]
pub struct AsError;

// A bound on the impl: the compiler then reports the missing conversion with the trait's message.
#[diagnostic::do_not_recommend]
impl<Res, Err: From<Elapsed>> OnElapsed<Res, Err> for AsError {
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err> {
        Err(Err::from(elapsed))
    }
}

impl<F, M> DeadlineFuture<F, M> {
    /// The deadline ends the call.
    pub(super) fn ended<Res, Err>(self: Pin<&mut Self>, sent: bool) -> Result<Res, Err>
    where
        M: OnElapsed<Res, Err>,
    {
        let mut this = self.project();
        let Some(armed) = this.armed.take() else {
            polled_after_completion("DeadlineFuture")
        };
        let handle = &armed.handle;
        if !sent {
            handle.unsent();
        }
        // After a success a layer between still waits, for example for the body.
        let may_have_acted = || handle.in_flight() || handle.has_lost() || handle.has_won();
        let ambiguous = sent && !armed.is_repeatable() && may_have_acted();
        // Dropped before the history is read, so that it includes the cancelled attempts.
        this.inner.set(None);
        armed.end(&*this.on_elapsed, ambiguous)
    }

    /// An outcome that may stem from another timer for this deadline.
    #[cold]
    #[inline(never)]
    pub(super) fn echo<Res, Err>(
        self: Pin<&mut Self>,
        outcome: Result<Res, Err>,
    ) -> Result<Res, Err>
    where
        M: OnElapsed<Res, Err>,
    {
        let mut this = self.project();
        this.inner.set(None);
        let now = clock::now();
        let at = match &*this.ends {
            Ends::Never => None,
            Ends::At(at) => Some(*at),
            Ends::Fires(timer) => timer.instant(),
            Ends::Passed(_) => Some(now),
        };
        match at.zip(this.armed.take()) {
            Some((at, armed)) if now >= at => {
                let not_sent = match armed.scope {
                    // Its record is written later.
                    DeadlineScope::Attempt => !armed.handle.in_flight(),
                    // The ended attempt counts as having left the client, unless its record says
                    // otherwise.
                    DeadlineScope::Call => {
                        let records = armed.handle.info();
                        let last = records.records().next_back();
                        let stage = last.and_then(|record| Some(record.failure?.stage));
                        stage == Some(Stage::Dispatch) && !armed.handle.is_copied()
                    }
                };
                let ambiguous = !armed.is_repeatable() && (!not_sent || armed.handle.has_lost());
                armed.end(&*this.on_elapsed, ambiguous)
            }
            _ => outcome,
        }
    }
}

impl Armed {
    /// Whether the caller may simply call again.
    pub(super) fn is_repeatable(&self) -> bool {
        let idempotency = match self.handle.idempotency() {
            Idempotency::Unknown => self.natural,
            said => said,
        };
        idempotency.outlives_call()
    }

    /// The outcome for the caller.
    pub(super) fn end<Res, Err>(
        self,
        on_elapsed: &impl OnElapsed<Res, Err>,
        ambiguous: bool,
    ) -> Result<Res, Err> {
        let outcome = on_elapsed.on_elapsed(self.elapsed(ambiguous));
        if outcome.is_ok() && self.scope == DeadlineScope::Attempt {
            self.handle.own_answer();
        }
        outcome
    }

    fn elapsed(&self, ambiguous: bool) -> Elapsed {
        match self.scope {
            DeadlineScope::Call => self.handle.stop(StopReason::Deadline),
            DeadlineScope::Attempt => self.handle.own_failure(),
        }
        let elapsed = Elapsed {
            scope: self.scope,
            timeout: self.timeout,
            ambiguous,
            info: Box::new(self.handle.info()),
        };
        if self.scope == DeadlineScope::Call {
            crate::observe::log::deadline_alone(&self.handle, &elapsed);
        }
        elapsed
    }
}

impl<F, M> fmt::Debug for DeadlineFuture<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture")
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}
