//! A call that is dropped before it has an outcome.

use std::fmt;
use std::pin::Pin;

use crate::driver::CallEffects;
use crate::{HasCallContext, StopReason};
use tower_service::Service;

use super::future::{Next, RetryFuture, Sent, State, StateProj};

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
        this.source.describe(settings.service);
        let effects = settings.effects(this.source.context_mut());
        let end = |stopped: StopReason| effects.ended(stopped);
        let stopped = effects.why_dropped(crate::clock::now());
        match this.state.project() {
            StateProj::InFlight { sent, .. } => match sent {
                Sent::Passed => settings.passed_and_dropped(effects.context),
                Sent::First | Sent::Observed => {
                    effects.cancelled(Some(stopped));
                    end(stopped);
                }
                Sent::Again(failing, _) => {
                    effects.cancelled(Some(stopped));
                    failing.as_mut().driver().dropped(stopped, &effects);
                }
            },
            StateProj::Between { failing, .. } => {
                failing.as_mut().driver().dropped(stopped, &effects);
            }
            StateProj::Expired | StateProj::Done => {}
        }
    }
}

impl<F, O> State<F, O> {
    const fn name(&self) -> &'static str {
        match self {
            Self::InFlight { sent, .. } => match sent {
                Sent::First => "First",
                Sent::Observed => "Observed",
                Sent::Again(..) => "Again",
                Sent::Passed => "Passed",
            },
            Self::Between { next, .. } => match next {
                Next::Decide(_) => "Decide",
                Next::Wait => "Wait",
                Next::Yield => "Yield",
                Next::Ready => "Ready",
            },
            Self::Expired => "Expired",
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
