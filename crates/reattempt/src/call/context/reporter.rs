//! Reports of inner layers and transports on one attempt.

use super::Attempt;
use super::CallContext;
use crate::attempt::Backend;
use crate::call::attempt_key::AttemptKey;
use crate::call::state::CallState;
use crate::call::state::{ConfigWaiter, Flag};
use crate::policy::throttle::count_response_end;
use crate::{ServerPushback, Stage, Verdict};

/// Reports what an inner layer or a transport observes in one attempt.
///
/// Owned, cheap to clone, and safe to use late: a report on an attempt that is over is ignored.
/// Without a recovery layer only the [end](Self::finish) of a response counts, and what layers
/// below this one read, such as [pushback](Self::pushback) for a balancer. Without a layer above
/// that [begins](crate::CallContext::begin) the call, as recovery layers and a `DeadlineLayer` do,
/// nothing is kept.
#[derive(Debug, Default)]
pub struct AttemptReporter(pub(super) Attempt);

/// For a layer that needs the request's context no longer: without a copy of its own.
impl From<CallContext> for AttemptReporter {
    fn from(context: CallContext) -> Self {
        Self(context.attempt)
    }
}

impl Clone for AttemptReporter {
    fn clone(&self) -> Self {
        Self(self.0.share())
    }
}

impl AttemptReporter {
    fn with(&self, report: impl FnOnce(&CallState, AttemptKey)) {
        if let Some(state) = self.0.call() {
            report(state, self.0.bits.key());
        }
    }

    /// The attempt's context, for observers.
    #[cfg(feature = "tokio")]
    pub(crate) fn context(&self) -> CallContext {
        self.0.context()
    }

    /// The reported attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.0.bits.attempt()
    }

    /// The server's pushback; the latest report counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|state, key| state.slots.pushback(key, pushback));
    }

    /// The server's pushback could not be parsed: it counts as none, and the attempt's record shows
    /// it.
    pub fn pushback_unreadable(&self) {
        self.with(|state, key| state.slots.pushback_unreadable(key));
    }

    /// How far the attempt has come. The classifier's [`Stage::Response`] is final: a server's
    /// response overrides earlier reports.
    pub fn stage(&self, stage: Stage) {
        self.with(|state, key| state.slots.stage(key, stage));
    }

    /// The response is this layer's own and not the server's: the reported [stage](Self::stage)
    /// counts, whatever the classifier returns for the response. Without a reported stage the
    /// attempt counts as in flight. If it is a success, it says nothing about the server: throttle,
    /// admission, health and a learned hedge delay ignore it.
    ///
    /// For layers that produce responses: an attempt timeout, load shedding.
    pub fn own_answer(&self) {
        self.with(CallState::own_answer);
    }

    /// The same for an error.
    #[cfg(feature = "tokio")]
    pub(crate) fn own_failure(&self) {
        self.with(CallState::own_failure);
    }

    /// Where the attempt was sent.
    pub fn backend(&self, backend: Backend) {
        self.with(|state, key| state.backend(key.attempt, backend));
    }

    /// Where the attempt was sent, if that was reported.
    #[cfg(feature = "tokio")]
    pub(crate) fn reported_backend(&self) -> Option<Backend> {
        self.0.call()?.backend_of(self.attempt())
    }

    /// Whether there is a backend that this call has not tried, this attempt included: see
    /// [`Transparent::NextBackend`](crate::Transparent::NextBackend). The last report counts,
    /// because an attempt that waits for a connection may try several backends. At most
    /// [`MOST_RECORDS`](crate::MOST_RECORDS) are tried for it: the call remembers no more.
    pub fn untried_backend(&self, is_left: bool) {
        self.with(|state, key| state.slots.put(key, Flag::UNTRIED_BACKEND, is_left));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|state, key| state.slots.set(key, Flag::FORBIDDEN));
    }

    /// The server may have carried out the request, whatever the failure's stage says: it is sent
    /// again only if it is idempotent, or if the classifier's reason is one that is always retried.
    ///
    /// For a transport whose failure may be of a later step, such as the GET that follows a POST's
    /// redirect.
    pub fn in_doubt(&self) {
        self.with(|state, key| state.slots.set(key, Flag::IN_DOUBT));
    }

    /// A circuit breaker refused the attempt, which was never sent then: whatever the classifier
    /// says, its reason is [`CIRCUIT_BREAKER_OPEN`](crate::reason::CIRCUIT_BREAKER_OPEN) in the
    /// stage [`Stage::Dispatch`]. Any request moves on to a backend that the call has not tried,
    /// uncounted. Without one the policy decides if another backend let the call through, or if the
    /// protocol waits for a circuit to close; otherwise the call ends. If an earlier step of the
    /// attempt may have reached a server, it is [in doubt](Self::in_doubt) and does not move on.
    pub fn circuit_open(&self) {
        self.with(|state, key| state.slots.set(key, Flag::CIRCUIT_OPEN));
    }

    /// The attempt was certainly not sent until now, because a circuit breaker refused it, no
    /// connection could be made or its credentials were being made, and is sent now: the
    /// [stage](Self::stage) and the refusal that were reported no longer hold.
    ///
    /// For layers that wait and send an attempt again, or send it to another service. A circuit
    /// breaker around that other service takes back the refusal of an earlier one by itself.
    pub fn sent_again(&self) {
        self.with(|state, key| state.slots.sent_again(key));
    }

    /// A newer configuration was requested: `waiter` resolves when it is known whether it moved the
    /// call's target. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|state, key| {
            // Without a recovery layer nothing takes the waiter, and the state may outlive the
            // call.
            if state.is_claimed() {
                state.leave_waiter(key, waiter);
            }
        });
    }

    /// For a body wrapper, as it passes the request on: the response will be followed to its
    /// [end](Self::finish). The recovery layer checks that a layer does so. If a response of the
    /// same attempt has begun before, its server has answered, and its end no longer counts.
    #[must_use]
    #[cfg_attr(not(feature = "tokio"), expect(unused_mut))]
    pub fn follow(mut self) -> Self {
        if let Some(state) = self.0.call() {
            #[cfg(feature = "tokio")]
            let step = state.follows(self.attempt());
            state.slots.follow(self.0.bits.key());
            #[cfg(feature = "tokio")]
            self.0.bits.set_step(step);
        }
        self
    }

    /// [`finish`](Self::finish) without the log. True if the response was committed and open until
    /// now.
    pub(crate) fn conclude(&self, verdict: &Verdict) -> bool {
        let Some(state) = self.0.call() else {
            return false;
        };
        if !state.ended(self.0.bits, verdict) {
            return false;
        }
        if let Some(throttle) = self.0.throttle().filter(|_| !self.0.is_own_answer()) {
            let paid = state.last_paid();
            count_response_end(&**throttle, self.attempt(), verdict, paid.as_ref());
        }
        true
    }
}
