//! What is known of a call, on its way down (Annotated requests carry it).

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::block::CallBlock;
use crate::findings::{Backend, ConfigWaiter};
use crate::throttle::Settled;
use crate::{
    Annotated, AttemptKind, Failure, Findings, Idempotency, RetryInfo, RetryStrategy,
    RetryThrottle, RoutePolicy, ServerPushback, Stage, Stopped, TimeLimit,
};

/// What is known of a call: its attempt, limits, idempotency, policy, throttle, and your own data.
///
/// What a caller stamps is a template. The first of these layers that sees the request gives the call a
/// block of its own, for what layers stamp and for what comes back up, so that a request which is cloned
/// before never shares it.
///
/// Of several stamps the caller's beats the policy's, and the policy's beats the layer's; of two
/// time limits the earlier counts.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    block: Option<Arc<CallBlock>>,
    own: Option<Arc<Stamps>>,
    limit: Option<TimeLimit>,
    attempt: u32,
    kind: AttemptKind,
    idempotency: Idempotency,
    claimed: bool,
}

/// What callers stamp; few calls have any of it.
#[derive(Clone, Default)]
struct Stamps {
    strategy: Option<Arc<dyn RetryStrategy>>,
    throttle: Option<Arc<dyn RetryThrottle>>,
    policy: Option<Arc<RoutePolicy>>,
    watch: Option<Watch>,
    data: Option<Arc<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stamps")
            .field("strategy", &self.strategy)
            .field("throttle", &self.throttle)
            .field("policy", &self.policy)
            .field("data", &self.data.is_some())
            .finish_non_exhaustive()
    }
}

/// What callers read and stamp.
impl CallContext {
    /// Lets the caller see what becomes of this request's call: read [`Watch::info`] after it, whether it
    /// worked, failed, timed out or was dropped.
    pub fn watch<R: Annotated + ?Sized>(request: &mut R) -> Watch {
        let watch = Watch::default();
        let context = request.context_mut();
        if let Some(block) = &context.block {
            watch.see(block);
        }
        context.own_mut().watch = Some(watch.clone());
        watch
    }

    fn own_mut(&mut self) -> &mut Stamps {
        Arc::make_mut(self.own.get_or_insert_default())
    }

    /// The attempt's number, from 1; 0 outside of the recovery layer.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Why this attempt is sent.
    #[must_use]
    pub const fn kind(&self) -> AttemptKind {
        self.kind
    }

    /// True below the recovery layer that acts on this call.
    #[must_use]
    pub const fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// Whether the request may take effect twice.
    #[must_use]
    pub const fn idempotency(&self) -> Idempotency {
        self.idempotency
    }

    /// Stamps whether the request may take effect twice; beats what its protocol says.
    pub const fn set_idempotency(&mut self, idempotency: Idempotency) -> &mut Self {
        self.idempotency = idempotency;
        self
    }

    /// The time limit in force here.
    #[must_use]
    pub const fn limit(&self) -> Option<TimeLimit> {
        self.limit
    }

    /// Stamps a time limit; an earlier one stays.
    pub fn stamp_limit(&mut self, limit: TimeLimit) -> &mut Self {
        self.limit = Some(limit.earlier(self.limit));
        self
    }

    /// The policy in force: the caller's, else the route's.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        let own = self.own.as_ref().and_then(|own| own.policy.as_ref());
        own.or_else(|| self.block.as_ref()?.policy.get())
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
        self.own.as_ref()?.strategy.as_ref()
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
        let own = self.own.as_ref().and_then(|own| own.throttle.as_ref());
        own.or_else(|| self.policy().and_then(|policy| policy.get_throttle()))
            .or_else(|| self.block.as_ref()?.throttle.get())
    }

    /// Stamps a throttle for this one call; beats policy and layer.
    pub fn set_throttle(&mut self, throttle: Arc<dyn RetryThrottle>) -> &mut Self {
        self.own_mut().throttle = Some(throttle);
        self
    }

    /// Puts your own data on the call, for strategies, classifiers and services further in.
    pub fn set_data<T: Any + Send + Sync>(&mut self, data: T) -> &mut Self {
        self.own_mut().data = Some(Arc::new(data));
        self
    }

    /// Your own data, if it is of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.own.as_ref()?.data.as_ref()?.downcast_ref()
    }

    /// The backends that earlier attempts of this call went to, first used first: a hint for
    /// whatever balances below (A6, Hedging Policy: distinct backends).
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
            attempt: self.attempt,
        }
    }

    /// For a body wrapper: tells the throttle how a committed answer really ended.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        Conclusion {
            reporter: self.reporter(),
            throttle: self.throttle().cloned(),
        }
    }
}

/// What layers do.
impl CallContext {
    /// For layers: stamps the route's policy. Of two layers the outer one's stays. Below the recovery layer only
    /// what is further in sees it: a call keeps the policy it started with.
    #[inline]
    pub fn stamp_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        if self.claimed {
            if self.policy().is_none() {
                self.set_policy(policy);
            }
        } else {
            let _ = self.block().policy.set(policy);
        }
        self
    }

    /// For layers: stamps the layer's throttle. Of two layers the outer one's stays. Below the recovery layer only
    /// what is further in sees it.
    #[inline]
    pub fn stamp_throttle(&mut self, throttle: &Arc<dyn RetryThrottle>) -> &mut Self {
        if self.claimed {
            if self.throttle().is_none() {
                self.set_throttle(Arc::clone(throttle));
            }
        } else {
            self.block().throttle.get_or_init(|| Arc::clone(throttle));
        }
        self
    }

    /// For layers: gives the call its block if it has none yet, and a handle on it.
    #[inline]
    pub fn begin(&mut self) -> CallHandle {
        CallHandle(Arc::clone(self.block()))
    }

    #[inline]
    fn block(&mut self) -> &Arc<CallBlock> {
        let own = self.own.as_deref();
        self.block.get_or_insert_with(|| {
            let block = Arc::<CallBlock>::default();
            if let Some(watch) = own.and_then(|own| own.watch.as_ref()) {
                watch.see(&block);
            }
            block
        })
    }

    /// For recovery layers: this layer acts on the call; any other passes through.
    #[inline]
    pub fn claim(&mut self) {
        if !self.block().claim() {
            // Somebody above cloned the request after its call had begun: this is another call.
            self.fork();
        }
        self.claimed = true;
    }

    #[cold]
    fn fork(&mut self) {
        let Some(old) = self.block.take() else { return };
        let new = self.block();
        if let Some(policy) = old.policy.get() {
            let _ = new.policy.set(Arc::clone(policy));
        }
        if let Some(throttle) = old.throttle.get() {
            let _ = new.throttle.set(Arc::clone(throttle));
        }
        new.claim();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline]
    pub fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        self.attempt = number;
        self.kind = kind;
        self.block().sent(number, kind == AttemptKind::Transparent);
    }

    /// For recovery layers: what was found in this attempt.
    #[must_use]
    pub fn findings(&self) -> Findings {
        self.block
            .as_ref()
            .map_or_else(Findings::default, |block| block.slots.read(self.attempt))
    }

    /// For recovery layers: the waiter that a config-poll layer left for this attempt.
    #[must_use]
    pub fn take_config_waiter(&self) -> Option<ConfigWaiter> {
        self.block.as_ref()?.take_waiter(self.attempt)
    }

    #[inline]
    pub(crate) fn shared(&self) -> Option<&CallBlock> {
        self.block.as_deref()
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.block.as_ref()?.backend_of(self.attempt)
    }
}

/// For layers: a call's block, beyond the request's own life.
#[derive(Clone, Debug)]
pub struct CallHandle(Arc<CallBlock>);

impl CallHandle {
    /// True once a recovery layer acts on the call.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.0.is_claimed()
    }

    /// True if some attempt is out that may have left the client. Where no recovery layer
    /// counts attempts this is taken to be so.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.0.in_flight()
    }

    /// Notes why the call ended.
    pub fn stop(&self, stopped: Stopped) {
        self.0.stop(stopped);
    }

    /// What became of the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.0.info()
    }
}

/// Lets a caller see what became of its call. Made by [`CallContext::watch`].
///
/// If the request is cloned and sent several times, the call that began last is seen.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Option<Arc<CallBlock>>>>);

impl Watch {
    fn see(&self, block: &Arc<CallBlock>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(block));
    }

    /// What became of the call so far; empty before a layer has seen the request.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref()
            .map_or_else(RetryInfo::default, |block| block.info())
    }
}

/// Reports what an inner layer or a transport finds in one attempt.
///
/// Owned, cheap to clone, and harmless when late: a report on an attempt that is long over is ignored, and
/// without a recovery layer nobody listens.
#[derive(Clone, Debug)]
pub struct Reporter {
    block: Option<Arc<CallBlock>>,
    attempt: u32,
}

impl Reporter {
    fn with(&self, report: impl FnOnce(&CallBlock, u32)) {
        if let Some(block) = &self.block {
            report(block, self.attempt);
        }
    }

    /// The attempt that is reported on.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The server's word on another attempt; the latest counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|block, attempt| block.slots.pushback(attempt, pushback));
    }

    /// How far the attempt has come.
    pub fn stage(&self, stage: Stage) {
        self.with(|block, attempt| block.slots.stage(attempt, stage));
    }

    /// Where the attempt went.
    pub fn backend(&self, backend: Backend) {
        self.with(|block, attempt| block.backend(attempt, backend));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|block, attempt| block.slots.forbid(attempt));
    }

    /// A newer configuration has been asked for: `waiter` resolves when it is known whether it moved what the call is
    /// about. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|block, attempt| block.leave_waiter(attempt, waiter));
    }
}

/// Tells the throttle how an answer ended whose head had committed the call.
#[derive(Clone, Debug)]
pub struct Conclusion {
    reporter: Reporter,
    throttle: Option<Arc<dyn RetryThrottle>>,
}

impl Conclusion {
    /// The answer ended like this. Counted once, and only if the recovery layer had left it open;
    /// `Err` with `counts` false is recorded but says nothing about the server (a fatal status).
    pub fn conclude(&self, end: Result<(), (&Failure, bool)>) {
        let Some(block) = &self.reporter.block else {
            return;
        };
        if !block.slots.conclude(self.reporter.attempt) {
            return;
        }
        let settled = match end {
            Ok(()) => Some(Settled::Success),
            Err((failure, counts)) => {
                block.amend(self.reporter.attempt, |record| {
                    record.failure = Some(*failure)
                });
                counts.then_some(Settled::Failure(failure))
            }
        };
        if let (Some(throttle), Some(settled)) = (&self.throttle, settled) {
            throttle.settled(settled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::TokenBucket;
    use crate::{Call, policy::RoutePolicy};

    fn bucket() -> Arc<dyn RetryThrottle> {
        Arc::new(TokenBucket::new(10, 100).unwrap())
    }

    #[test]
    fn the_callers_stamp_beats_the_policy_and_the_policy_the_layer() {
        let (caller, policy, layer) = (bucket(), bucket(), bucket());
        let mut context = CallContext::default();
        context.stamp_throttle(&layer);
        assert!(Arc::ptr_eq(context.throttle().unwrap(), &layer));
        context.stamp_policy(Arc::new(
            RoutePolicy::new("r").throttle(Arc::clone(&policy)),
        ));
        assert!(Arc::ptr_eq(context.throttle().unwrap(), &policy));
        context.set_throttle(Arc::clone(&caller));
        context.stamp_throttle(&layer);
        assert!(Arc::ptr_eq(context.throttle().unwrap(), &caller));
    }

    #[test]
    fn a_cloned_template_never_shares_its_calls_block() {
        let mut template = Call::new("get");
        let watch = CallContext::watch(&mut template);
        let (mut one, mut two) = (template.clone(), template);
        one.context_mut().start_attempt(1, AttemptKind::Initial);
        two.context_mut().start_attempt(1, AttemptKind::Initial);
        two.context_mut().start_attempt(2, AttemptKind::Retry);
        assert_eq!(one.context().unwrap().info().attempts(), 1);
        assert_eq!(
            watch.info().attempts(),
            2,
            "the call that began last is seen"
        );
    }

    #[test]
    fn a_request_cloned_between_the_layers_becomes_a_call_of_its_own() {
        let mut one = CallContext::default();
        one.stamp_throttle(&bucket());
        let mut two = one.clone();
        one.claim();
        one.start_attempt(1, AttemptKind::Initial);
        two.claim();
        assert_eq!(two.info().attempts(), 0);
        assert!(two.throttle().is_some());
    }

    #[test]
    fn of_two_limits_the_earlier_counts() {
        #[allow(
            clippy::disallowed_methods,
            reason = "a base for arithmetic; no time passes here"
        )]
        let now = std::time::Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        let mut context = CallContext::default();
        context
            .stamp_limit(TimeLimit::enforced(later))
            .stamp_limit(TimeLimit::stamped(now));
        assert_eq!(context.limit(), Some(TimeLimit::stamped(now)));
        context.stamp_limit(TimeLimit::enforced(now));
        assert_eq!(context.limit(), Some(TimeLimit::enforced(now)));
    }

    #[test]
    fn data_is_found_by_its_type() {
        let mut context = CallContext::default();
        context.set_data(7_u8);
        assert_eq!(context.data::<u8>(), Some(&7));
        assert_eq!(context.data::<u16>(), None);
    }
}
