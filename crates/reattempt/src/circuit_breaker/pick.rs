//! Which circuit breaker a request has.

use std::sync::Arc;

use crate::health::CircuitBreaker;

/// Finds the circuit breaker of a request: that of its backend or its route. An
/// `Arc<CircuitBreaker>` is that of all.
pub trait PickBreaker<Req> {
    /// The breaker; `None` if nothing is refused.
    fn pick(&self, request: &Req) -> Option<Arc<CircuitBreaker>>;

    /// The breaker of all requests, if there is one. It is asked before the inner service is ready,
    /// so that an open circuit refuses at once what would have to wait, and callers that wait are
    /// woken and refused when the circuit opens. Callers of a breaker that is picked with the
    /// request are not: they ask for it once the inner service is ready.
    fn of_all(&self) -> Option<&Arc<CircuitBreaker>> {
        None
    }
}

impl<Req> PickBreaker<Req> for Arc<CircuitBreaker> {
    #[inline]
    fn pick(&self, _: &Req) -> Option<Self> {
        Some(Self::clone(self))
    }

    #[inline]
    fn of_all(&self) -> Option<&Self> {
        Some(self)
    }
}
