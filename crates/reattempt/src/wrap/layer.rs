use tower_layer::Layer;

use super::{IntoCall, OutOfCall};

/// Wraps each request in a `Call`, which carries the context inline. Put it outermost.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLayer;

impl CallLayer {
    /// Creates the layer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = IntoCall<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IntoCall { inner }
    }
}

/// The inverse of [`CallLayer`]: unwraps each request from its `Call`, for a transport that takes
/// plain requests. Put it innermost.
#[derive(Clone, Copy, Debug, Default)]
pub struct UncallLayer;

impl UncallLayer {
    /// Creates the layer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for UncallLayer {
    type Service = OutOfCall<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OutOfCall { inner }
    }
}
