//! Options of a call that are seldom read: shared, because every attempt copies the context.

use std::any::Any;
use std::sync::Arc;

use super::RetryInfoHandle;
use crate::call::state::CallState;
use crate::{RetryStrategy, RetryThrottle, RoutePolicy};

/// The caller's options and the layer's throttle. Shared: every attempt copies the context.
#[derive(Clone, Default)]
pub(super) struct Stamps {
    pub(super) strategy: Option<Arc<dyn RetryStrategy>>,
    pub(super) throttle: Option<Arc<dyn RetryThrottle>>,
    pub(super) policy: Option<Arc<RoutePolicy>>,
    pub(super) watch: Option<RetryInfoHandle>,
    /// One value per type.
    pub(super) data: Vec<Arc<dyn Any + Send + Sync>>,
    pub(super) layer_throttle: Option<Arc<dyn RetryThrottle>>,
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stamps")
            .field("strategy", &self.strategy)
            .field("throttle", &self.throttle)
            .field("policy", &self.policy)
            .field("data", &self.data.len())
            .field("layer_throttle", &self.layer_throttle)
            .finish_non_exhaustive()
    }
}

/// For layers: a prepared throttle that is attached to many calls, which share one allocation.
#[derive(Clone, Debug)]
pub(crate) struct ThrottleStamp(pub(super) Arc<Stamps>);

impl ThrottleStamp {
    /// Prepares this throttle.
    pub(crate) fn new(throttle: Arc<dyn RetryThrottle>) -> Self {
        Self(Arc::new(Stamps {
            layer_throttle: Some(throttle),
            ..Stamps::default()
        }))
    }

    #[inline(never)]
    pub(super) fn on(&self, mut stamps: Arc<Stamps>) -> Arc<Stamps> {
        if stamps.layer_throttle.is_none() {
            Arc::make_mut(&mut stamps)
                .layer_throttle
                .clone_from(&self.0.layer_throttle);
        }
        stamps
    }
}

/// Makes the call's state visible to the caller.
#[cold]
#[inline(never)]
pub(super) fn shown(stamps: &Stamps, state: Arc<CallState>) -> Arc<CallState> {
    if let Some(watch) = &stamps.watch {
        watch.see(&state);
    }
    state
}
