//! A call that is dropped before it has an outcome.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::HasCallContext;
use tower_service::Service;

use super::future::{HedgeFuture, State, StateProj};
use super::settle::fed;
use crate::clock;
use crate::in_drop::InDrop;
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
        let settings = &config.settings;
        let context = self.as_mut().project().source.context_mut().share();
        let passed = matches!(self.state, State::Passed { .. });
        if context.is_over() || passed && !settings.takes_up_dropped(&context) {
            return;
        }
        let effects = settings.effects(&context);
        let stopped = effects.why_dropped(clock::now());
        let mut dropping = InDrop::default();
        dropping.run(|| self.source.describe(settings.service.as_ref()));
        let is_template = self.source.is_template();
        let state = self.as_mut().project().state.project();
        if let StateProj::First { policy, beside, .. } = &state {
            if is_template {
                dropping.run(|| fed(policy, &context, beside.began(), AttemptEnd::Dropped));
            }
        }
        if matches!(state, StateProj::First { .. } | StateProj::Passed { .. }) {
            dropping.run(|| effects.cancelled(Some(stopped)));
        }
        if let Some(call) = self.call() {
            for (context, sent) in call.hedging.flights() {
                let end = AttemptEnd::Dropped;
                dropping.run(|| call.feed(context, Some(sent), end));
                dropping.run(|| settings.effects(context).cancelled(Some(stopped)));
            }
        }
        dropping.run(|| effects.ended(stopped));
        dropping.finish();
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
