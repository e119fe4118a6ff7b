//! Calls whose policy, or own strategy, says how they are retried.

use std::sync::Arc;
use std::time::Duration;

use super::{Config, First, Retry};
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{MaxAttempts, NeverRetry};
use crate::{CallContext, HasCallContext, OnDeadline, Recovery, RetryStrategy, RoutePolicy};
use tower_service::Service;

impl<C> Config<C> {
    /// The caller's strategy beats the policy's, the policy's beats the layer's. `None` for a
    /// policy that hedges: a layer below has to act.
    #[inline]
    pub(super) fn choose<'a>(
        &'a self,
        policy: Option<&'a Arc<RoutePolicy>>,
        own: Option<&'a Arc<dyn RetryStrategy>>,
    ) -> Option<&'a dyn RetryStrategy> {
        match (own, policy.map(|policy| policy.recovery())) {
            (Some(strategy), _) | (None, Some(Recovery::Retry(strategy))) => Some(&**strategy),
            (None, Some(Recovery::None)) => Some(self.no_recovery),
            (None, Some(Recovery::Hedge(_))) => None,
            (None, Some(Recovery::Default) | None) => Some(&*self.strategy),
        }
    }

    /// What the policy, the caller's strategy and the layer make of the first attempt. Not by
    /// context: an address taken would keep every context in memory. Out of line it costs a call 4
    /// to 10 per cent.
    #[inline]
    pub(super) fn first(
        &self,
        policy: Option<&Arc<RoutePolicy>>,
        own: Option<&Arc<dyn RetryStrategy>>,
        has_deadline: bool,
        may_force: bool,
    ) -> First {
        let may_follow = match (own, policy.map(|policy| policy.recovery())) {
            (None, None | Some(Recovery::Default)) if self.may_follow => true,
            _ => match self.choose(policy, own) {
                Some(strategy) => may_follow(strategy),
                None => return First::Left,
            },
        };
        let warnings = &self.settings.warnings;
        warnings.if_timeout_ignored(has_deadline, policy);
        First::Sent {
            may_follow: may_force || may_follow,
            limited: policy.is_some_and(|policy| policy.attempt_timeout().is_some()),
        }
    }

    // By value, as above.
    #[inline(never)]
    pub(super) fn sent(&self, context: CallContext) {
        self.settings.observer.attempt_sent(&context);
    }
}

/// Retries nothing. The policy does not say what becomes of a transparent retry that does not fit
/// before the deadline: the call waits for it, unless the layer's strategy gives up explicitly.
pub(super) fn no_recovery(layer: &dyn RetryStrategy) -> &'static dyn RetryStrategy {
    static GIVES_UP: MaxAttempts =
        MaxAttempts::new(1, Backoff::constant(Duration::ZERO)).on_deadline(OnDeadline::GiveUp);
    match layer.on_deadline() {
        Some(OnDeadline::GiveUp) => &GIVES_UP,
        Some(OnDeadline::Cap) | None => &NeverRetry,
    }
}

pub(super) fn may_follow(strategy: &dyn RetryStrategy) -> bool {
    strategy.max_attempts().is_none_or(|max| max > 1)
}

impl<S, C> Retry<S, C> {
    /// This layer sends no attempt after the first one, or does not act: the request itself is
    /// sent.
    #[cold]
    #[inline(never)]
    pub(super) fn call_moved<Req>(
        &mut self,
        mut request: Req,
        first: First,
    ) -> (S::Future, CallContext)
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        let context = request.context_mut();
        if matches!(first, First::Left) {
            context.pass_first();
        }
        let context = context.share();
        if matches!(first, First::Sent { .. }) {
            context.describe(|| {
                request
                    .subject()
                    .of_service(self.config.settings.service.as_ref())
            });
        }
        (self.inner.call(request), context)
    }
}
