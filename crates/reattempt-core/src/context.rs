//! What is known of a call, on its way down (Annotated requests carry it).

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::block::CallBlock;
use crate::findings::{Backend, ConfigWaiter, Seat};
use crate::marks::{CALLER, CLAIMED, ENFORCED, Marks};
use crate::recycle;
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
    stamps: Option<Arc<Stamps>>,
    /// The route's.
    policy: Option<Arc<RoutePolicy>>,
    limit: Option<Instant>,
    marks: Marks,
}

/// What callers stamp, and the layer's throttle. Shared: a context is copied for every attempt.
#[derive(Clone, Default)]
struct Stamps {
    strategy: Option<Arc<dyn RetryStrategy>>,
    throttle: Option<Arc<dyn RetryThrottle>>,
    policy: Option<Arc<RoutePolicy>>,
    watch: Option<Watch>,
    /// Of each type one.
    data: Vec<Arc<dyn Any + Send + Sync>>,
    layer_throttle: Option<Arc<dyn RetryThrottle>>,
}

/// For layers: a throttle made ready to be stamped on many calls, which then share one stamp.
#[derive(Clone, Debug)]
pub struct ThrottleStamp(Arc<Stamps>);

impl ThrottleStamp {
    /// A stamp of this throttle.
    #[must_use]
    pub fn new(throttle: Arc<dyn RetryThrottle>) -> Self {
        Self(Arc::new(Stamps {
            layer_throttle: Some(throttle),
            ..Stamps::default()
        }))
    }

    #[inline(never)]
    fn on(&self, mut stamps: Arc<Stamps>) -> Arc<Stamps> {
        if stamps.layer_throttle.is_none() {
            Arc::make_mut(&mut stamps)
                .layer_throttle
                .clone_from(&self.0.layer_throttle);
        }
        stamps
    }
}

/// Lets the caller see the call's block.
#[cold]
#[inline(never)]
fn shown(stamps: &Stamps, block: Arc<CallBlock>) -> Arc<CallBlock> {
    if let Some(watch) = &stamps.watch {
        watch.see(&block);
    }
    block
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

// Its handles are let go of by value: with no address taken a context lives in registers, and what is called to drop it is
// small enough to be inlined wherever one might have to be dropped.
impl Drop for CallContext {
    #[inline(always)]
    fn drop(&mut self) {
        // Also where there are none: a test here costs more in all that it is copied into than the call.
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

    /// What the caller stamped; few calls have any of it.
    #[inline]
    fn caller(&self) -> Option<&Stamps> {
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

    /// Puts your own data on the call, for strategies, classifiers, observers and services further in. Of each type one is
    /// kept, the last: a layer's data and a caller's stay out of each other's way.
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
    /// A block on which a recovery layer acts that is not above belongs to another call, from whose request this one was
    /// cloned: then this call gets its own.
    #[inline(always)]
    pub fn begin(&mut self) -> CallHandle {
        if !self.is_claimed() && self.is_taken_up() {
            self.block = Some(self.begun());
        }
        self.block();
        CallHandle(self.block.clone())
    }

    /// For layers: true once a recovery layer, above or below, acts on the call of this context's block.
    #[must_use]
    #[inline(always)]
    pub fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallBlock::is_claimed)
    }

    // What is cold below takes and gives its handles by value: with no address taken, a context lives in registers
    // all the way through the layers.
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

    /// For recovery layers: the attempt worked, or its answer began. Tells the throttle and the block, and leaves no record.
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

    /// For recovery layers: the call worked and this context is not needed any more. Its block may serve another call,
    /// once nobody can see it any more; one with a log is left to its owners, and freed with them.
    #[inline(always)]
    pub fn retire(&mut self) {
        if let Some(block) = self.block.take() {
            if !block.is_logged() {
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

    /// For recovery layers: true if this is a copy of that context, of the same attempt of the same call.
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

/// For layers: a call's block, beyond the request's own life.
#[derive(Clone, Debug)]
pub struct CallHandle(Option<Arc<CallBlock>>);

impl CallHandle {
    /// The call worked: if no recovery layer acted on it, that would do so itself, its block may serve another call.
    #[inline(always)]
    pub fn retire(self) {
        if let Some(block) = self.0 {
            if !block.is_claimed() && !block.is_logged() {
                recycle::put_by(block);
            }
        }
    }

    /// True once a recovery layer acts on the call.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.0.as_ref().is_some_and(|block| block.is_claimed())
    }

    /// True if some attempt is out that may have left the client. Where no recovery layer
    /// counts attempts this is taken to be so.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.0.as_ref().is_none_or(|block| block.in_flight())
    }

    /// Notes why the call ended.
    pub fn stop(&self, stopped: Stopped) {
        if let Some(block) = self.0.as_ref() {
            block.stop(stopped);
        }
    }

    /// What became of the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.0
            .as_ref()
            .map_or_else(RetryInfo::default, |block| block.info())
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
    seat: Seat,
}

impl Reporter {
    fn with(&self, report: impl FnOnce(&CallBlock, Seat)) {
        if let Some(block) = &self.block {
            report(block, self.seat);
        }
    }

    /// The attempt that is reported on.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.seat.attempt
    }

    /// The server's word on another attempt; the latest counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|block, seat| block.slots.pushback(seat, pushback));
    }

    /// How far the attempt has come.
    pub fn stage(&self, stage: Stage) {
        self.with(|block, seat| block.slots.stage(seat, stage));
    }

    /// Where the attempt went.
    pub fn backend(&self, backend: Backend) {
        self.with(|block, seat| block.backend(seat.attempt, backend));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|block, seat| block.slots.forbid(seat));
    }

    /// A newer configuration has been asked for: `waiter` resolves when it is known whether it moved what the call is
    /// about. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|block, seat| block.leave_waiter(seat, waiter));
    }
}

/// Tells the throttle how an answer ended whose head had committed the call.
#[derive(Clone, Debug)]
pub struct Conclusion {
    reporter: Reporter,
    kind: AttemptKind,
    throttle: Option<Arc<dyn RetryThrottle>>,
}

impl Conclusion {
    /// The answer ended like this. Counted once, and only if the recovery layer had left it open;
    /// `Err` with `counts` false is recorded but says nothing about the server (a fatal status).
    pub fn conclude(&self, end: Result<(), (&Failure, bool)>) {
        let Some(block) = &self.reporter.block else {
            return;
        };
        if !block.slots.conclude(self.reporter.seat) {
            return;
        }
        let settled = match end {
            Ok(()) => Some(Settled::Success),
            Err((failure, counts)) => {
                block.concluded(self.reporter.seat, self.kind, failure, counts);
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
        context.stamp_throttle(&ThrottleStamp::new(Arc::clone(&layer)));
        assert!(Arc::ptr_eq(context.throttle().unwrap(), &layer));
        context.stamp_policy(Arc::new(
            RoutePolicy::new("r").throttle(Arc::clone(&policy)),
        ));
        assert!(Arc::ptr_eq(context.throttle().unwrap(), &policy));
        context.set_throttle(Arc::clone(&caller));
        context.stamp_throttle(&ThrottleStamp::new(Arc::clone(&layer)));
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
        one.stamp_throttle(&ThrottleStamp::new(bucket()));
        let mut two = one.clone();
        one.claim();
        one.start_attempt(1, AttemptKind::Initial);
        two.claim();
        assert_eq!(two.info().attempts(), 0);
        assert!(two.throttle().is_some());
    }

    #[test]
    fn a_handle_never_belongs_to_the_call_that_the_request_was_cloned_from() {
        let mut one = CallContext::default();
        drop(one.begin());
        let mut two = one.clone();
        let mut three = one.clone();
        one.claim_first();
        let handle = two.begin();
        two.claim_first();
        one.settle_success(false);
        assert!(handle.is_claimed() && handle.in_flight());
        assert_eq!(handle.info().stopped(), None);
        three.claim_first();
        assert!(!three.is_copy_of(&one), "each acts on a call of its own");
        let below = one.begin();
        assert!(!below.in_flight(), "below its own recovery layer it stays");
    }

    #[test]
    fn of_two_threads_one_claims_a_block() {
        for _ in 0..200 {
            let mut one = CallContext::default();
            drop(one.begin());
            let mut two = one.clone();
            let both = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    both.wait();
                    one.claim_first();
                });
                both.wait();
                two.claim_first();
            });
            assert!(!one.is_copy_of(&two));
        }
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
        context.set_data(7_u8).set_data("a layer's");
        assert_eq!(context.data::<u8>(), Some(&7));
        assert_eq!(context.data::<u16>(), None);
        let earlier = context.clone();
        context.set_data(8_u8);
        assert_eq!(context.data::<u8>(), Some(&8), "the last of its type");
        assert_eq!(context.data::<&str>(), Some(&"a layer's"));
        assert_eq!(earlier.data::<u8>(), Some(&7), "a clone keeps its own");
    }
}
