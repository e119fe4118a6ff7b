//! What callers read and stamp.

use std::any::Any;
use std::sync::Arc;

use super::{CallContext, Conclusion, Reporter, Stamps, Watch};
use crate::findings::Backend;
use crate::marks::{CALLER, CLAIMED, ENFORCED};
use crate::{
    Annotated, AttemptKind, Idempotency, RetryInfo, RetryStrategy, RetryThrottle, RoutePolicy,
    TimeLimit,
};

/// What callers read and stamp.
impl CallContext {
    /// Lets the caller see what becomes of this request's call: read [`Watch::info`] after it,
    /// whether it worked, failed, timed out or was dropped.
    pub fn watch<R: Annotated + ?Sized>(request: &mut R) -> Watch {
        let watch = Watch::default();
        let context = request.context_mut();
        if let Some(block) = &context.block {
            watch.see(block);
        }
        context.own_mut().watch = Some(watch.clone());
        watch
    }

    /// What the caller stamped; few calls have any of it.
    #[inline]
    pub(super) fn caller(&self) -> Option<&Stamps> {
        if self.marks.has(CALLER) {
            self.stamps.as_deref()
        } else {
            None
        }
    }

    fn own_mut(&mut self) -> &mut Stamps {
        self.marks.set(CALLER);
        Arc::make_mut(self.stamps.get_or_insert_default())
    }

    /// The attempt's number, from 1; 0 outside of the recovery layer.
    #[must_use]
    #[inline]
    pub const fn attempt(&self) -> u32 {
        self.marks.attempt()
    }

    /// Why this attempt is sent.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> AttemptKind {
        self.marks.kind()
    }

    /// True below the recovery layer that acts on this call.
    #[must_use]
    #[inline]
    pub const fn is_claimed(&self) -> bool {
        self.marks.has(CLAIMED)
    }

    /// Whether the request may take effect twice.
    #[must_use]
    #[inline]
    pub const fn idempotency(&self) -> Idempotency {
        self.marks.idempotency()
    }

    /// Stamps whether the request may take effect twice; beats what its protocol says.
    #[inline]
    pub const fn set_idempotency(&mut self, idempotency: Idempotency) -> &mut Self {
        self.marks.set_idempotency(idempotency);
        self
    }

    /// The time limit in force here.
    #[must_use]
    #[inline]
    pub const fn limit(&self) -> Option<TimeLimit> {
        match self.limit {
            Some(at) => Some(TimeLimit {
                at,
                enforced: self.marks.has(ENFORCED),
            }),
            None => None,
        }
    }

    /// Stamps a time limit; an earlier one stays.
    #[inline]
    pub fn stamp_limit(&mut self, limit: TimeLimit) -> &mut Self {
        let limit = limit.earlier(self.limit());
        self.limit = Some(limit.at);
        self.marks.put(ENFORCED, limit.enforced);
        self
    }

    /// The policy in force: the caller's, else the route's.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.caller()
            .and_then(|own| own.policy.as_ref())
            .or(self.policy.as_ref())
    }

    /// The policy that a layer stamped, also where the caller's own stands before it: for what no
    /// single call may change, such as MongoDB's `retryReads`.
    #[must_use]
    #[inline]
    pub const fn route_policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.policy.as_ref()
    }

    /// False if there is certainly no policy and no strategy but the layers' own.
    #[must_use]
    #[inline]
    pub fn has_policy(&self) -> bool {
        self.marks.has(CALLER) || self.policy.is_some()
    }

    /// Stamps a policy for this one call; beats the route's.
    pub fn set_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        self.own_mut().policy = Some(policy);
        self
    }

    /// The strategy that the caller stamped for this one call.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> Option<&Arc<dyn RetryStrategy>> {
        self.caller()?.strategy.as_ref()
    }

    /// Stamps a strategy for this one call; beats policy and layer.
    pub fn set_strategy(&mut self, strategy: Arc<dyn RetryStrategy>) -> &mut Self {
        self.own_mut().strategy = Some(strategy);
        self
    }

    /// The throttle in force: the caller's, else the policy's, else the layer's.
    #[must_use]
    #[inline]
    pub fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.caller()
            .and_then(|own| own.throttle.as_ref())
            .or_else(|| self.policy()?.get_throttle())
            .or_else(|| self.stamps.as_ref()?.layer_throttle.as_ref())
    }

    /// Stamps a throttle for this one call; beats policy and layer.
    pub fn set_throttle(&mut self, throttle: Arc<dyn RetryThrottle>) -> &mut Self {
        self.own_mut().throttle = Some(throttle);
        self
    }

    /// Puts your own data on the call, for strategies, classifiers, observers and services further
    /// in. Of each type one is kept, the last: a layer's data and a caller's stay out of each
    /// other's way.
    pub fn set_data<T: Any + Send + Sync>(&mut self, data: T) -> &mut Self {
        let kept = &mut self.own_mut().data;
        kept.retain(|kept| !(**kept).is::<T>());
        kept.push(Arc::new(data));
        self
    }

    /// Your own data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        let kept = &self.stamps.as_ref()?.data;
        kept.iter().find_map(|kept| kept.downcast_ref())
    }

    /// The backends that attempts of this call went to, the one that was used longest ago first: a
    /// hint for whatever balances below (A6, Hedging Policy: distinct backends).
    #[must_use]
    pub fn backends_tried(&self) -> Vec<Backend> {
        self.block
            .as_ref()
            .map_or_else(Vec::new, |block| block.backends())
    }

    /// What became of the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.block
            .as_ref()
            .map_or_else(RetryInfo::default, |block| block.info())
    }

    /// For an inner layer or transport: reports what it finds in this attempt.
    #[must_use]
    #[inline]
    pub fn reporter(&self) -> Reporter {
        Reporter {
            block: self.block.clone(),
            seat: self.marks.seat(),
        }
    }

    /// For a body wrapper: tells the throttle how a committed answer really ended.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        Conclusion {
            reporter: self.reporter(),
            kind: self.kind(),
            throttle: self.throttle().cloned(),
        }
    }
}
