//! A call that is dropped before it has an outcome.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use crate::HasCallContext;
use tower_service::Service;

use super::failing::Next;
use super::future::{RetryFuture, Sent, State, StateProj};
use crate::call::state::CallState;

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
        let stopped = effects.why_dropped(crate::clock::now());
        let (failing, asked) = match this.state.project() {
            StateProj::InFlight { sent, .. } => {
                if matches!(sent, Sent::Passed) {
                    return settings.passed_and_dropped(effects.context);
                }
                effects.cancelled(Some(stopped));
                match sent {
                    Sent::First | Sent::Limited | Sent::Passed => return effects.ended(stopped),
                    Sent::Again(failing) => (failing, None),
                    Sent::Holding(both) => (&mut both.0, None),
                }
            }
            StateProj::Deciding { deciding } => (&mut deciding.failing, Some(&mut deciding.asked)),
            StateProj::Between { failing, .. } => match failing.next {
                Next::Settle => {
                    let ended = effects.context.shared().and_then(CallState::stopped);
                    if ended.is_none() {
                        // The panic may be of the same user: a second one would abort the process.
                        drop(catch_unwind(AssertUnwindSafe(|| {
                            failing.driver.unsent(effects.throttle());
                            effects.ended(stopped);
                        })));
                    }
                    return;
                }
                // The end is recorded.
                Next::Expire => return,
                // A late gate was reached. What goes on at once does so in the same poll.
                Next::Late | Next::AtOnce => {
                    return effects.unsent(&mut failing.driver, stopped);
                }
                Next::Wait | Next::Yield | Next::Ready => (failing, None),
            },
            StateProj::Done => return,
        };
        if let Some(asked) = asked {
            asked.failed.stop(stopped);
            effects.record(&mut asked.failed.record);
        }
        failing.driver.unsent(effects.throttle());
        effects.ended(stopped);
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
            Self::Deciding { .. } => "Deciding",
            Self::Between { failing, .. } => match failing.next {
                Next::Settle => "Settle",
                Next::Wait => "Wait",
                Next::Yield => "Yield",
                Next::Ready | Next::AtOnce => "Ready",
                Next::Late | Next::Expire => "Expired",
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
