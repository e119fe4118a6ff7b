//! The state of a call that annotated requests carry down the stack.

mod caller;
mod conclusion;
mod handle;
mod info_handle;
mod layers;
mod reporter;
mod stamps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use crate::RoutePolicy;
use crate::call::attempts::{AttemptKey, Backend};
use crate::call::marks::Marks;
use crate::call::state::CallState;
pub use conclusion::Conclusion;
pub use handle::CallHandle;
pub use info_handle::RetryInfoHandle;
pub use reporter::AttemptReporter;
use stamps::Stamps;
pub(crate) use stamps::ThrottleStamp;

/// The state of a call: its attempt, limits, idempotency, policy, throttle, and user data.
///
/// What a caller sets is a template. The first of these layers that sees the request allocates a
/// state for the call, for what layers attach and for reports from below, so that a request that is
/// cloned earlier never shares it.
///
/// The caller's settings override the policy's, and the policy's override the layer's; of two time
/// limits the earlier applies.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    state: Option<Arc<CallState>>,
    stamps: Option<Arc<Stamps>>,
    /// The route's policy.
    policy: Option<Arc<RoutePolicy>>,
    limit: Option<Instant>,
    marks: Marks,
}

// The handles are dropped by value: without an address taken, a context stays in registers, and the
// drop call is small enough to be inlined wherever a context might be dropped.
impl Drop for CallContext {
    #[inline(always)]
    fn drop(&mut self) {
        // Called even if all are empty: a check at every inlined place costs more than the call.
        let_go(self.state.take(), self.stamps.take(), self.policy.take());
    }
}

#[inline(never)]
fn let_go(
    state: Option<Arc<CallState>>,
    stamps: Option<Arc<Stamps>>,
    policy: Option<Arc<RoutePolicy>>,
) {
    drop((state, stamps, policy));
}

impl CallContext {
    #[inline]
    pub(crate) fn shared(&self) -> Option<&CallState> {
        self.state.as_deref()
    }

    #[inline]
    pub(crate) const fn seat(&self) -> AttemptKey {
        self.marks.seat()
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.state.as_ref()?.backend_of(self.attempt())
    }
}
