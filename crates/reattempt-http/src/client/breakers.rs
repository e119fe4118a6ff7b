//! A circuit breaker for each origin.

use std::fmt;
use std::sync::Arc;

use http::Request;
use http::header::HOST;
use reattempt::Observer;
use reattempt::circuit_breaker::PickBreaker;
use reattempt::health::{CircuitBreaker, LiveHealthPolicy};

use super::origin::{Origin, PerOrigin};

/// The most characters of an origin's name in events.
const MOST_NAME: usize = 262;

/// A client without circuit breakers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBreakers;

/// A circuit breaker for each origin.
#[derive(Clone)]
pub struct OriginBreakers(Arc<PerOrigin<CircuitBreaker>>);

impl OriginBreakers {
    pub(super) fn new(policy: LiveHealthPolicy, observer: Option<Arc<dyn Observer>>) -> Self {
        let make = move |origin: &Origin<'_>| {
            let now = tokio::time::Instant::now().into_std();
            // A name of the DNS has at most 253 bytes; what a hostile URL has may be longer.
            let name: String = origin.to_string().chars().take(MOST_NAME).collect();
            let breaker = CircuitBreaker::new(&policy, now).with_name(name);
            if let Some(observer) = observer.clone() {
                breaker.on_event(move |event| observer.health_changed(event));
            }
            Arc::new(breaker)
        };
        Self(Arc::new(PerOrigin::new(Box::new(make))))
    }
}

impl<B> PickBreaker<Request<B>> for OriginBreakers {
    fn pick(&self, request: &Request<B>) -> Option<Arc<CircuitBreaker>> {
        Some(self.0.of(request.uri(), || request.headers().get(HOST)))
    }
}

impl fmt::Debug for OriginBreakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OriginBreakers").field(&self.0).finish()
    }
}
