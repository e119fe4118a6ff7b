//! What is known of a call, on its way down (Annotated requests carry it).

mod caller;
mod conclusion;
mod handle;
mod layers;
mod reporter;
mod stamps;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::time::Instant;

use crate::RoutePolicy;
use crate::block::CallBlock;
use crate::findings::{Backend, Seat};
use crate::marks::Marks;
pub use conclusion::Conclusion;
pub use handle::CallHandle;
pub use reporter::Reporter;
use stamps::Stamps;
pub use stamps::ThrottleStamp;
pub use watch::Watch;

/// What is known of a call: its attempt, limits, idempotency, policy, throttle, and your own data.
///
/// What a caller stamps is a template. The first of these layers that sees the request gives the
/// call a block of its own, for what layers stamp and for what comes back up, so that a request
/// which is cloned before never shares it.
///
/// Of several stamps the caller's beats the policy's, and the policy's beats the layer's; of two
/// time limits the earlier counts.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    block: Option<Arc<CallBlock>>,
    stamps: Option<Arc<Stamps>>,
    /// The route's.
    policy: Option<Arc<RoutePolicy>>,
    limit: Option<Instant>,
    marks: Marks,
}

// Its handles are let go of by value: with no address taken a context lives in registers, and what
// is called to drop it is small enough to be inlined wherever one might have to be dropped.
impl Drop for CallContext {
    #[inline(always)]
    fn drop(&mut self) {
        // Also where there are none: a test here costs more in all that it is copied into than the
        // call.
        let_go(self.block.take(), self.stamps.take(), self.policy.take());
    }
}

#[inline(never)]
fn let_go(
    block: Option<Arc<CallBlock>>,
    stamps: Option<Arc<Stamps>>,
    policy: Option<Arc<RoutePolicy>>,
) {
    drop((block, stamps, policy));
}

impl CallContext {
    #[inline]
    pub(crate) fn shared(&self) -> Option<&CallBlock> {
        self.block.as_deref()
    }

    #[inline]
    pub(crate) const fn seat(&self) -> Seat {
        self.marks.seat()
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.block.as_ref()?.backend_of(self.attempt())
    }
}
