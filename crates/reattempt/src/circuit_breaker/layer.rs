use std::sync::Arc;

use tower_layer::Layer;

use super::{Circuit, Permit};
use crate::Observer;
use crate::deadline::AsError;
use crate::health::CircuitBreaker;

/// Refuses attempts while their backend fails.
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer<C, M = AsError, B = Arc<CircuitBreaker>> {
    pub(super) breaker: B,
    pub(super) classifier: C,
    pub(super) on_open: M,
    /// The first layer of this breaker that has observers.
    is_first: bool,
}

impl<C, B> CircuitBreakerLayer<C, AsError, B> {
    /// Uses this breaker, which other layers and the program may share, or a
    /// [`PickBreaker`](super::PickBreaker). The classifier is that of the recovery layer: a verdict
    /// that the request is at fault, with a reason that is an [`answer`](crate::retry_reasons),
    /// says nothing against the backend.
    #[must_use]
    pub const fn new(breaker: B, classifier: C) -> Self {
        Self {
            breaker,
            classifier,
            on_open: AsError,
            is_first: false,
        }
    }
}

impl<C, M> CircuitBreakerLayer<C, M> {
    /// Notifies this observer when the circuit opens or closes, for metrics; the log has it anyway.
    /// Those added before stay. One change is one event: of layers that share a breaker the first
    /// that has observers notifies them, as do its clones. For others there is
    /// [`CircuitBreaker::on_event`].
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.is_first |= self.breaker.is_first_observed();
        if self.is_first {
            self.breaker
                .on_event(move |event| observer.health_changed(event));
        }
        self
    }
}

impl<C, M, B> CircuitBreakerLayer<C, M, B> {
    /// Sets the outcome of a refused request; by default an error made from
    /// [`CircuitOpen`](super::CircuitOpen). One that the classifier takes for a success is a
    /// fallback.
    #[must_use]
    pub fn on_open<N>(self, on_open: N) -> CircuitBreakerLayer<C, N, B> {
        CircuitBreakerLayer {
            breaker: self.breaker,
            classifier: self.classifier,
            on_open,
            is_first: self.is_first,
        }
    }
}

impl<S, C: Clone, M: Clone, B: Clone> Layer<S> for CircuitBreakerLayer<C, M, B> {
    type Service = Circuit<S, C, M, B>;

    fn layer(&self, inner: S) -> Self::Service {
        Circuit {
            inner,
            permit: Permit::Undecided,
            waits: None,
            layer: self.clone(),
        }
    }
}
