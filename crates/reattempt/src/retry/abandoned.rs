//! A call that is dropped before it has an outcome.

use std::fmt;
use std::pin::Pin;

use crate::HasCallContext;
use tower_service::Service;

use super::Next;
use super::future::{RetryFuture, Sent, State, StateProj};
use super::kept::Kept;
use crate::in_drop::InDrop;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// Records the attempt that was dropped, and the end of the call.
    #[cold]
    #[inline(never)]
    pub(super) fn abandoned(self: Pin<&mut Self>) {
        let this = self.project();
        let settings = &this.config.settings;
        let context = this.source.context_mut();
        let mut state = this.state.project();
        let passed = matches!(
            state,
            StateProj::InFlight {
                sent: Sent::Passed,
                ..
            }
        );
        if context.is_over() || passed && !settings.takes_up_dropped(context) {
            return;
        }
        let mut dropping = InDrop::default();
        dropping.run(|| this.source.describe(settings.service.as_ref()));
        let effects = settings.effects(this.source.context_mut());
        let stopped = effects.why_dropped(crate::clock::now());
        dropping.run(|| match &mut state {
            StateProj::InFlight { .. } => effects.cancelled(Some(stopped)),
            StateProj::Between {
                failing,
                kept: Some(Kept::Undecided(undecided)),
            } => {
                let failed = &mut undecided.asked.failed;
                failed.stop(stopped);
                effects.record(&mut failed.record);
                failing.driver.unsent(effects.throttle());
            }
            StateProj::Between { failing, .. } => match failing.next {
                // A late gate was reached. What goes on at once does so in the same poll.
                Next::Late(_) | Next::AtOnce => effects.unsent(&mut failing.driver, stopped),
                next => {
                    failing.driver.unsent(effects.throttle());
                    if next == Next::Send {
                        effects.cancelled(Some(stopped));
                    }
                }
            },
            StateProj::Done => {}
        });
        dropping.run(|| effects.ended(stopped));
        dropping.finish();
    }
}

impl<F, O> State<F, O> {
    fn name(&self) -> &'static str {
        match self {
            Self::InFlight { sent, .. } => match sent {
                Sent::First | Sent::Limited => "First",
                Sent::Again(_) | Sent::Holding(_) => "Again",
                Sent::Passed => "Passed",
            },
            Self::Between {
                kept: Some(Kept::Undecided(_)),
                ..
            } => "Undecided",
            Self::Between { failing, .. } => match failing.next {
                Next::Settle | Next::Send => "Settle",
                Next::Wait => "Wait",
                Next::Yield => "Yield",
                Next::Ready | Next::AtOnce => "Ready",
                Next::Late(_) => "Expired",
            },
            Self::Done => "Done",
        }
    }
}

impl<S, C, Req> fmt::Debug for RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture")
            .field("state", &self.state.name())
            .field("context", &self.source.context())
            .finish_non_exhaustive()
    }
}
