//! What callers read and set.

use std::any::Any;
use std::sync::Arc;

use super::{AttemptReporter, CallContext, Conclusion, Stamps};
use crate::call::attempts::Backend;
use crate::call::marks::{CALLER, CLAIMED, ENFORCED};
use crate::{
    AttemptKind, CallDeadline, Idempotency, RetryInfo, RetryStrategy, RetryThrottle, RoutePolicy,
};

/// What callers read and set.
impl CallContext {
    /// The options that the caller set; few calls have any.
    #[inline]
    pub(super) fn caller(&self) -> Option<&Stamps> {
        if self.marks.has(CALLER) {
            self.stamps.as_deref()
        } else {
            None
        }
    }

    pub(super) fn own_mut(&mut self) -> &mut Stamps {
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

    /// Sets whether the request may take effect twice; overrides what its protocol says.
    #[inline]
    pub const fn set_idempotency(&mut self, idempotency: Idempotency) -> &mut Self {
        self.marks.set_idempotency(idempotency);
        self
    }

    /// The time limit that applies here.
    #[must_use]
    #[inline]
    pub const fn limit(&self) -> Option<CallDeadline> {
        match self.limit {
            Some(at) => Some(CallDeadline {
                at,
                enforced: self.marks.has(ENFORCED),
            }),
            None => None,
        }
    }

    /// Attaches a time limit, unless an earlier one is present.
    #[inline]
    pub fn stamp_limit(&mut self, limit: CallDeadline) -> &mut Self {
        let limit = limit.earlier(self.limit());
        self.limit = Some(limit.at);
        self.marks.put(ENFORCED, limit.enforced);
        self
    }

    /// The policy that applies: the caller's, else the route's.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.caller()
            .and_then(|own| own.policy.as_ref())
            .or(self.policy.as_ref())
    }

    /// The policy that a layer attached, even if the caller's own overrides it: for settings that
    /// no single call may change, such as MongoDB's `retryReads`.
    #[must_use]
    #[inline]
    pub const fn route_policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.policy.as_ref()
    }

    /// False if there is certainly no policy and no strategy other than the layers' own.
    #[must_use]
    #[inline]
    pub fn has_policy(&self) -> bool {
        self.marks.has(CALLER) || self.policy.is_some()
    }

    /// Sets a policy for this call only; overrides the route's.
    pub fn set_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        self.own_mut().policy = Some(policy);
        self
    }

    /// The strategy that the caller set for this call.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> Option<&Arc<dyn RetryStrategy>> {
        self.caller()?.strategy.as_ref()
    }

    /// Sets a strategy for this call only; overrides policy and layer.
    pub fn set_strategy(&mut self, strategy: Arc<dyn RetryStrategy>) -> &mut Self {
        self.own_mut().strategy = Some(strategy);
        self
    }

    /// The throttle that applies: the caller's, else the policy's, else the layer's.
    #[must_use]
    #[inline]
    pub fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.caller()
            .and_then(|own| own.throttle.as_ref())
            .or_else(|| self.policy()?.throttle())
            .or_else(|| self.stamps.as_ref()?.layer_throttle.as_ref())
    }

    /// Sets a throttle for this call only; overrides policy and layer.
    pub fn set_throttle(&mut self, throttle: Arc<dyn RetryThrottle>) -> &mut Self {
        self.own_mut().throttle = Some(throttle);
        self
    }

    /// Attaches user data to the call, for strategies, classifiers, observers and inner services.
    /// One value per type is kept, the last one, so data of different layers and of the caller does
    /// not conflict.
    pub fn set_data<T: Any + Send + Sync>(&mut self, data: T) -> &mut Self {
        let kept = &mut self.own_mut().data;
        kept.retain(|kept| !(**kept).is::<T>());
        kept.push(Arc::new(data));
        self
    }

    /// The user data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        let kept = &self.stamps.as_ref()?.data;
        kept.iter().find_map(|kept| kept.downcast_ref())
    }

    /// The backends that attempts of this call were sent to, least recently used first: a hint for
    /// load balancing below (A6, Hedging Policy: distinct backends).
    #[must_use]
    pub fn backends_tried(&self) -> Vec<Backend> {
        self.state
            .as_ref()
            .map_or_else(Vec::new, |state| state.backends())
    }

    /// What happened in the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.state
            .as_ref()
            .map_or_else(RetryInfo::default, |state| state.info())
    }

    /// For an inner layer or transport: the handle to report on this attempt.
    #[must_use]
    #[inline]
    pub fn reporter(&self) -> AttemptReporter {
        AttemptReporter {
            state: self.state.clone(),
            seat: self.marks.seat(),
        }
    }

    /// For a body wrapper: the handle to report how a committed response ended.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        Conclusion {
            reporter: self.reporter(),
            kind: self.kind(),
            throttle: self.throttle().cloned(),
        }
    }
}
