//! A call that is dropped before it has an outcome.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::HasCallContext;
use tower_service::Service;

use super::future::{HedgeFuture, State, StateProj};
use super::settle::fed;
use crate::clock;
use crate::policy::AttemptEnd;
use crate::recovery::in_drop;

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// Records the attempts that were dropped, and the end of the call.
    #[inline(never)]
    pub(super) fn abandoned(mut self: Pin<&mut Self>) {
        let config = Arc::clone(&self.config);
        let settings = &config.settings;
        self.source.describe(settings.service);
        let context = self.as_mut().project().source.context_mut().share();
        if matches!(self.state, State::Passed { .. }) {
            return in_drop(|| settings.passed_and_dropped(&context), || ());
        }
        if context.is_over() {
            return;
        }
        let effects = settings.effects(&context);
        let stopped = effects.why_dropped(clock::now());
        let attempts = || {
            let state = self.as_mut().project().state.project();
            if let StateProj::First { policy, beside, .. } = state {
                fed(policy, 1, beside.began(), AttemptEnd::Dropped);
                effects.cancelled(Some(stopped));
            }
            let Some(call) = self.as_mut().call() else {
                return;
            };
            for (context, sent) in call.hedging.flights() {
                let number = context.attempt();
                fed(call.policy, number, Some(sent), AttemptEnd::Dropped);
                settings.effects(context).cancelled(Some(stopped));
            }
        };
        in_drop(attempts, || effects.ended(stopped));
    }
}

impl<F, H> State<F, H> {
    const fn name(&self) -> &'static str {
        match self {
            Self::First { .. } => "First",
            Self::Others { .. } => "Others",
            Self::Passed { .. } => "Passed",
            Self::Expired { .. } => "Expired",
            Self::Done => "Done",
        }
    }
}

impl<S, C, Req> fmt::Debug for HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture")
            .field("state", &self.state.name())
            .field("context", &self.source.context())
            .finish_non_exhaustive()
    }
}
