use std::time::Duration;

use tower_layer::Layer;

use super::{AsError, Deadline};

/// Ends calls at their time limit; below the recovery layer, attempts at theirs.
///
/// Of several limits (the layer's, the route policy's, one set by the caller) the earliest applies.
#[derive(Clone, Debug)]
pub struct DeadlineLayer<M = AsError> {
    timeout: Option<Duration>,
    on_elapsed: M,
}

impl DeadlineLayer {
    /// Sets the time limit of each call (or attempt).
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            on_elapsed: AsError,
        }
    }

    /// Without a time limit of its own: enforces only the policy's and the caller's.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self {
            timeout: None,
            on_elapsed: AsError,
        }
    }
}

impl<M> DeadlineLayer<M> {
    /// Sets the outcome for an elapsed deadline; by default an error ([`AsError`]).
    #[must_use]
    pub fn on_elapsed<N>(self, on_elapsed: N) -> DeadlineLayer<N> {
        DeadlineLayer {
            timeout: self.timeout,
            on_elapsed,
        }
    }
}

impl<S, M: Clone> Layer<S> for DeadlineLayer<M> {
    type Service = Deadline<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline {
            inner,
            timeout: self.timeout,
            on_elapsed: self.on_elapsed.clone(),
        }
    }
}
