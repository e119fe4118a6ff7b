use std::sync::Arc;

use crate::CallContext;
use crate::call::AtEnd;
use crate::clock;
use crate::health::{CircuitBreaker, Outcome, Sent};

/// A request that was let through. Dropped without an outcome, it took at least as long as it
/// lasted.
#[derive(Debug)]
pub(super) struct Trial {
    breaker: Arc<CircuitBreaker>,
    sent: Option<Sent>,
    /// The backend is ready, and no request was sent yet.
    is_idle: bool,
}

impl Trial {
    pub(super) const fn new(breaker: Arc<CircuitBreaker>, sent: Sent) -> Self {
        Self {
            breaker,
            sent: Some(sent),
            is_idle: false,
        }
    }

    /// Whether no other request became the trial meanwhile, because this one waited for too long,
    /// and no hand opened the circuit.
    pub(super) fn is_current(&self) -> bool {
        let sent = self.sent.as_ref();
        sent.is_some_and(|sent| self.breaker.is_trial(sent))
    }

    /// Dropped from now on, it says nothing of the backend.
    pub(super) fn set_idle(&mut self) {
        self.is_idle = true;
    }

    /// The response has begun: the breaker learns from its end.
    pub(super) fn begun(&mut self, context: &CallContext) {
        let sent = self.sent.take();
        if let Some(open) = sent.and_then(|sent| self.breaker.begun(sent, clock::now())) {
            context.at_end(AtEnd::Health(open));
        }
    }

    pub(super) fn ended(&mut self, outcome: Outcome) {
        if let Some(sent) = self.sent.take() {
            self.breaker.ended(sent, clock::now(), outcome);
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !self.is_idle {
            return self.ended(Outcome::Dropped);
        }
        if let Some(sent) = self.sent.take() {
            self.breaker.unsent(sent, clock::now());
        }
    }
}
