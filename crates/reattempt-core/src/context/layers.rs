//! What layers do with a context.

use std::sync::Arc;
use std::time::Instant;

use super::stamps::shown;
use super::{CallContext, CallHandle, ThrottleStamp};
use crate::block::CallBlock;
use crate::findings::{ConfigWaiter, Seat};
use crate::marks::{CLAIMED, ENFORCED};
use crate::recycle;
use crate::throttle::Settled;
use crate::{AttemptKind, Findings, RoutePolicy, Stopped};

/// What layers do.
impl CallContext {
    /// For layers: stamps the route's policy. Of two layers the outer one's stays.
    #[inline(always)]
    pub fn stamp_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        self.policy.get_or_insert(policy);
        self
    }

    /// For layers: stamps the layer's throttle. Of two layers the outer one's stays.
    #[inline(always)]
    pub fn stamp_throttle(&mut self, throttle: &ThrottleStamp) -> &mut Self {
        self.stamps = Some(match self.stamps.take() {
            None => Arc::clone(&throttle.0),
            Some(stamps) => throttle.on(stamps),
        });
        self
    }

    /// For layers: the limit in force from here on, which the layer enforces.
    #[inline(always)]
    pub const fn enforce_limit(&mut self, at: Instant) {
        self.limit = Some(at);
        self.marks.set(ENFORCED);
    }

    /// For layers: gives the call its block if it has none yet, and a handle on it.
    ///
    /// A block on which a recovery layer acts that is not above belongs to another call, from whose
    /// request this one was cloned: then this call gets its own.
    #[inline(always)]
    pub fn begin(&mut self) -> CallHandle {
        if !self.is_claimed() && self.is_taken_up() {
            self.block = Some(self.begun());
        }
        self.block();
        CallHandle(self.block.clone(), self.seat())
    }

    /// For layers: true once a recovery layer, above or below, acts on the call of this context's
    /// block.
    #[must_use]
    #[inline(always)]
    pub fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallBlock::is_claimed)
    }

    // What is cold below takes and gives its handles by value: with no address taken, a context
    // lives in registers all the way through the layers.
    #[inline(always)]
    fn block(&mut self) -> Option<&CallBlock> {
        if self.block.is_none() {
            self.block = Some(self.begun());
        }
        self.shared()
    }

    #[inline(always)]
    fn begun(&self) -> Arc<CallBlock> {
        let block = recycle::fresh();
        match self.caller() {
            Some(stamps) => shown(stamps, block),
            None => block,
        }
    }

    /// For recovery layers: this layer acts on the call; any other passes through.
    #[inline(always)]
    pub fn claim(&mut self) {
        if !self.block().is_none_or(CallBlock::claim) {
            // Somebody above cloned the request after its call had begun: this is another call.
            self.block = Some(self.begun());
            self.shared().map(CallBlock::claim);
        }
        self.marks.set(CLAIMED);
    }

    /// For recovery layers: claims the call and makes this the context of its first attempt.
    #[inline(always)]
    pub fn claim_first(&mut self) {
        if !self.block().is_none_or(CallBlock::claim_first) {
            self.block = Some(self.begun());
            self.shared().map(CallBlock::claim_first);
        }
        self.marks.claim_first();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline(always)]
    pub fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        let seat = match self.block() {
            Some(block) => block.sent(number, kind == AttemptKind::Transparent),
            None => Seat::first_choice(number),
        };
        self.marks.set_attempt(seat, kind);
    }

    /// For layers: one that is below the recovery layer enforces the policy's limit of one attempt.
    pub fn note_attempt_limit(&self) {
        if let Some(block) = self.shared() {
            block.limit_attempts();
        }
    }

    /// For recovery layers: true once a layer below enforced the policy's limit of one attempt.
    #[must_use]
    pub fn is_attempt_limited(&self) -> bool {
        self.shared().is_some_and(CallBlock::is_attempt_limited)
    }

    /// For recovery layers: the attempt worked, or its answer began. Tells the throttle and the
    /// block, and leaves no record.
    #[inline(always)]
    pub fn settle_success(&self, committed: bool) {
        let block = self.shared();
        let stopped = if committed {
            if let Some(block) = block {
                block.slots.commit(self.seat());
            }
            Stopped::Committed
        } else {
            if let Some(throttle) = self.throttle() {
                throttle.settled(Settled::Success);
            }
            Stopped::Success
        };
        if let Some(block) = block {
            block.won(stopped);
        }
    }

    /// The same for one of several attempts: the throttle is told what the last retry was permitted
    /// after.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_recovery(&self, committed: bool) {
        let throttle = self.throttle().filter(|_| !committed);
        let permitted = throttle.and_then(|_| self.shared()?.last_permitted());
        match (permitted, throttle) {
            (Some(failure), Some(throttle)) => {
                throttle.recovered(&failure);
                if let Some(block) = self.shared() {
                    block.won(Stopped::Success);
                }
            }
            _ => self.settle_success(committed),
        }
    }

    /// For recovery layers: the call worked and this context is not needed any more. Its block may
    /// serve another call, once nobody can see it any more; one with a log is left to its owners,
    /// and freed with them.
    #[inline(always)]
    pub fn retire(&mut self) {
        if let Some(block) = self.block.take() {
            if block.is_logged() {
                block.drop_waiters();
            } else {
                recycle::put_by(block);
            }
        }
    }

    /// For recovery layers: notes why the call ended.
    pub fn stop(&self, stopped: Stopped) {
        if let Some(block) = self.shared() {
            block.stop(stopped);
        }
    }

    /// For recovery layers: true if this is a copy of that context, of the same attempt of the same
    /// call.
    #[must_use]
    #[inline]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        match (&self.block, &other.block) {
            (Some(own), Some(other_block)) => {
                Arc::ptr_eq(own, other_block) && self.attempt() == other.attempt()
            }
            _ => false,
        }
    }

    /// For recovery layers: what was found in this attempt.
    #[must_use]
    pub fn findings(&self) -> Findings {
        self.block
            .as_ref()
            .map_or_else(Findings::default, |block| block.slots.read(self.seat()))
    }

    /// For recovery layers: the waiter that a config-poll layer left for this attempt.
    #[must_use]
    pub fn take_config_waiter(&self) -> Option<ConfigWaiter> {
        self.block.as_ref()?.take_waiter(self.attempt())
    }
}
