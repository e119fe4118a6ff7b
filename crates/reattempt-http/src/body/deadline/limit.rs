//! When a body has to end.

use std::time::{Duration, Instant};

use reattempt::{CallContext, CallHandle, DeadlineScope, Elapsed};

use crate::HttpRoute;

/// How a layer limits bodies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum BodyLimit {
    /// The deadline of the call.
    #[default]
    Call,
    /// This time from the response head on; `None` is unlimited. The route's takes precedence.
    AfterHead(Option<Duration>),
}

/// When one body has to end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    At(Instant),
    AfterHead(Duration),
}

impl Limit {
    pub(super) fn of(layer: BodyLimit, context: Option<&CallContext>) -> Option<Self> {
        let of_route = context.and_then(HttpRoute::of);
        let of_route = of_route.and_then(HttpRoute::body_timeout);
        let own = match layer {
            BodyLimit::Call => None,
            BodyLimit::AfterHead(own) => own,
        };
        if let Some(timeout) = of_route.or(own) {
            return Some(Self::AfterHead(timeout));
        }
        match layer {
            BodyLimit::Call => context.and_then(|context| Some(Self::At(context.deadline()?.at))),
            BodyLimit::AfterHead(_) => None,
        }
    }
}

/// What is known of the limit before the head has arrived.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) limit: Limit,
    pub(super) scope: DeadlineScope,
    pub(super) ambiguous: bool,
    pub(super) handle: CallHandle,
}

impl Pending {
    pub(super) fn head_has_arrived(self) -> Armed {
        const FAR: Duration = Duration::from_secs(1_000_000_000);
        let (at, timeout) = match self.limit {
            // The usual case reads no clock.
            Limit::At(at) => (at, None),
            Limit::AfterHead(timeout) => {
                let now = tokio::time::Instant::now().into_std();
                let at = now.checked_add(timeout.min(FAR)).unwrap_or(now);
                (at, Some(timeout))
            }
        };
        Armed {
            at,
            timeout,
            scope: self.scope,
            ambiguous: self.ambiguous,
            handle: self.handle,
        }
    }
}

/// The limit of a body whose head has arrived.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) at: Instant,
    /// The time that was configured for the body.
    timeout: Option<Duration>,
    scope: DeadlineScope,
    ambiguous: bool,
    handle: CallHandle,
}

impl Armed {
    pub(super) fn elapsed(&self) -> Elapsed {
        if self.scope == DeadlineScope::Call {
            self.handle.response_elapsed();
        }
        Elapsed::new(self.scope, self.timeout, self.ambiguous, self.handle.info())
    }
}
