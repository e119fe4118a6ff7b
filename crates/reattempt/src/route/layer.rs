use tower_layer::Layer;

use super::Routed;
use crate::StackCheck;

/// Attaches the policy that `R` (a [`Route`](crate::Route): a closure, a
/// [`Routes`](crate::Routes) handle, a protocol's configuration) finds for a request.
#[derive(Clone, Debug)]
pub struct RouteLayer<R> {
    routes: R,
    order: StackCheck,
    below_deadline: StackCheck,
}

impl<R> RouteLayer<R> {
    /// Finds policies with this route.
    #[must_use]
    pub fn new(routes: R) -> Self {
        Self {
            routes,
            order: StackCheck::default(),
            below_deadline: StackCheck::default(),
        }
    }
}

impl<S, R: Clone> Layer<S> for RouteLayer<R> {
    type Service = Routed<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Routed {
            inner,
            routes: self.routes.clone(),
            order: self.order.clone(),
            below_deadline: self.below_deadline.clone(),
        }
    }
}
