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

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// Records the attempts that were dropped, and the end of the call.
    #[inline(never)]
    pub(super) fn abandoned(mut self: Pin<&mut Self>) {
        let config = Arc::clone(&self.config);
        self.source.describe(config.settings.service);
        let context = self.as_mut().project().source.context_mut().share();
        let effects = config.settings.effects(&context);
        if matches!(self.state, State::Passed { .. }) {
            return config.settings.passed_and_dropped(&context);
        }
        let stopped = effects.why_dropped(clock::now());
        if let StateProj::First { policy, beside, .. } = self.as_mut().project().state.project() {
            fed(policy, 1, beside.began(), AttemptEnd::Dropped);
            effects.cancelled(Some(stopped));
        }
        if let Some(call) = self.call() {
            for (context, sent) in call.hedging.flights() {
                fed(
                    call.policy,
                    context.attempt(),
                    Some(sent),
                    AttemptEnd::Dropped,
                );
                config.settings.effects(context).cancelled(Some(stopped));
            }
        }
        effects.ended(stopped);
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
