//! Options of [`GrpcStats`](super::GrpcStats) besides meter and target.

use std::fmt;
use std::sync::Arc;

use super::methods::MethodFilter;

/// Options of a [`GrpcStats`](super::GrpcStats).
#[derive(Clone)]
pub struct Options {
    pub(super) retry_metrics: bool,
    pub(super) most_methods: usize,
    pub(super) methods: Option<MethodFilter>,
}

impl Options {
    /// The defaults: no retry metrics, and all methods by name, at most 1000.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retry_metrics: false,
            most_methods: 1000,
            methods: None,
        }
    }

    /// Records the metrics of A96 too, which are experimental and off by default.
    #[must_use]
    pub const fn retry_metrics(mut self, on: bool) -> Self {
        self.retry_metrics = on;
        self
    }

    /// Records by name only methods such as `shop.Cart/Add` for which this returns true; all others
    /// are `other`. For clients that forward paths from an untrusted source (A66, `grpc.method`). A
    /// method is not checked again once this has returned true.
    #[must_use]
    pub fn methods(mut self, by_name: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.methods = Some(Arc::new(by_name));
        self
    }

    /// Records at most this many methods by name, in the order they are seen; all others are
    /// `other`. 1000 by default.
    #[must_use]
    pub const fn most_methods(mut self, most: usize) -> Self {
        self.most_methods = most;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("retry_metrics", &self.retry_metrics)
            .field("most_methods", &self.most_methods)
            .field("methods", &self.methods.is_some())
            .finish()
    }
}
