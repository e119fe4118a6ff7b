//! What callers read and set.

use std::any::{Any, TypeId};
use std::sync::Arc;

use super::{AttemptReporter, CallContext};
use crate::attempt::Backend;
use crate::call::attempt_bits::{CALLER, ENFORCED};
use crate::call::state::CallState;
use crate::call::state::CallerOptions;
use crate::call::{CallSubject, MethodName};
use crate::policy::admission::Criticality;
use crate::strategy::CallView;
use crate::{CallDeadline, Idempotency, RetryInfo, RetryStrategy, RetryThrottle, RoutePolicy};

/// What callers read and set.
impl CallContext {
    pub(super) fn change_caller(&mut self, change: impl FnOnce(&mut CallerOptions)) -> &mut Self {
        self.attempt
            .change_options(|options| change(options.caller.get_or_insert_default()));
        self.attempt.bits.set(CALLER);
        self
    }

    /// Sets whether the request may take effect twice; overrides what its protocol says.
    #[inline]
    pub const fn set_idempotency(&mut self, idempotency: Idempotency) -> &mut Self {
        self.attempt.bits.set_idempotency(idempotency);
        self
    }

    /// How much it matters that the call is sent.
    #[must_use]
    #[inline]
    pub const fn criticality(&self) -> Criticality {
        self.attempt.bits.criticality()
    }

    /// Sets how much it matters that the call is sent. An [`AdmissionLayer`](crate::AdmissionLayer)
    /// refuses the lowest first.
    #[inline]
    pub const fn set_criticality(&mut self, criticality: Criticality) -> &mut Self {
        self.attempt.bits.set_criticality(criticality);
        self
    }

    /// Attaches a deadline, unless an earlier one is present. To pass on the deadline of another
    /// call, which no layer enforces for this one: `CallDeadline::attached(deadline.at)`.
    #[inline]
    pub fn attach_deadline(&mut self, deadline: CallDeadline) -> &mut Self {
        let deadline = deadline.earlier(self.deadline());
        self.deadline = Some(deadline.at);
        self.attempt.bits.put(ENFORCED, deadline.enforced);
        self
    }

    /// The policy that a layer attached, even if the caller's own overrides it: for settings that
    /// no single call may change, such as MongoDB's `retryReads`.
    #[must_use]
    #[inline]
    pub fn route_policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.attempt.route_policy()
    }

    /// Sets a policy for this call only; overrides the route's.
    pub fn set_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        self.change_caller(|own| own.policy = Some(policy))
    }

    /// Sets a strategy for this call only; overrides policy and layer.
    pub fn set_strategy(&mut self, strategy: Arc<dyn RetryStrategy>) -> &mut Self {
        self.change_caller(|own| own.strategy = Some(strategy))
    }

    /// Sets a throttle for this call only; overrides policy and layer.
    pub fn set_throttle(&mut self, throttle: Arc<dyn RetryThrottle>) -> &mut Self {
        self.change_caller(|own| own.throttle = Some(throttle))
    }

    /// Attaches user data to the call, for strategies, classifiers, observers and inner services.
    /// One value per type is kept, the last one, so data of different layers and of the caller does
    /// not conflict. Data that is set below the recovery layer belongs to that attempt: only layers
    /// below see it. What a strategy or an observer needs to know of an attempt goes into its
    /// [reporter](AttemptReporter::backend), or into the failure
    /// ([`Failure::with_extension`](crate::Failure::with_extension)).
    ///
    /// The data lives as long as the call's state. It must not hold a handle of the same call
    /// ([`AttemptReporter`], [`CallHandle`](crate::CallHandle), a clone of the claimed context):
    /// neither would be freed.
    pub fn set_data<T: Any + Send + Sync>(&mut self, data: T) -> &mut Self {
        self.change_caller(|own| {
            own.data.retain(|kept| !(**kept).is::<T>());
            own.data.push(Arc::new(data));
        })
    }

    /// The user data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        CallView::data(self, TypeId::of::<T>())?.downcast_ref()
    }

    /// The backends that attempts of this call were sent to, least recently used first: a hint for
    /// load balancing below (A6, Hedging Policy: distinct backends).
    #[must_use]
    pub fn backends_tried(&self) -> Vec<Backend> {
        self.shared().map_or_else(Vec::new, CallState::backends)
    }

    /// The method that was set for the log.
    #[must_use]
    pub const fn method(&self) -> Option<MethodName> {
        self.attempt.bits.method()
    }

    /// Sets the method of the call for the log, where the request does not say it.
    pub const fn set_method(&mut self, method: MethodName) -> &mut Self {
        self.attempt.bits.set_method(method);
        self
    }

    /// The call's number in this process's log, if it has left a trace there: the same in each
    /// event of the call. `None` before its first failure, and if the log is off: an observer that
    /// has to tell calls apart in any case reads [`data`](Self::data) that the caller set.
    #[must_use]
    pub fn call_id(&self) -> Option<u64> {
        self.shared().and_then(CallState::id)
    }

    /// What the call is about, if the log is on and the call needed it.
    #[must_use]
    pub fn subject(&self) -> Option<CallSubject> {
        self.shared().and_then(CallState::subject)
    }

    /// What happened in the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.shared()
            .map_or_else(RetryInfo::default, CallState::info)
    }

    /// For an inner layer, transport or body: the handle to report on this attempt.
    #[must_use]
    #[inline]
    pub fn reporter(&self) -> AttemptReporter {
        AttemptReporter(self.attempt.share())
    }
}

/// What strategies ask about their call.
impl CallView for CallContext {
    fn info(&self) -> RetryInfo {
        Self::info(self)
    }

    fn data(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let kept = &self.attempt.caller()?.data;
        kept.iter()
            .map(|kept| &**kept)
            .find(|kept| (*kept).type_id() == of)
    }

    fn route(&self) -> &str {
        self.policy().map_or("", |policy| policy.name())
    }

    fn backend(&self) -> Option<Backend> {
        Self::backend(self)
    }
}
