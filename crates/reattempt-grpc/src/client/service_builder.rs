//! `retry_grpc` on tower's `ServiceBuilder`.

use tower::ServiceBuilder;
use tower_layer::Stack;

use super::GrpcClientLayer;

/// Adds gRPC A6 to a [`ServiceBuilder`].
///
/// ```
/// use reattempt_grpc::GrpcServiceBuilderExt;
/// use reattempt_grpc::service_config::ServiceConfig;
/// use tower::ServiceBuilder;
///
/// let config = ServiceConfig::parse("{}")?;
/// let stack = ServiceBuilder::new().retry_grpc(config).concurrency_limit(100);
/// # let _ = stack;
/// # Ok::<(), reattempt::config::Faults>(())
/// ```
pub trait GrpcServiceBuilderExt<L>: sealed::Sealed + Sized {
    /// Adds [`GrpcClientLayer::new`] with this service config.
    fn retry_grpc<R>(self, config: R) -> ServiceBuilder<Stack<GrpcClientLayer<R>, L>>;
}

impl<L> GrpcServiceBuilderExt<L> for ServiceBuilder<L> {
    fn retry_grpc<R>(self, config: R) -> ServiceBuilder<Stack<GrpcClientLayer<R>, L>> {
        self.layer(GrpcClientLayer::new(config))
    }
}

/// Keeps the trait to tower's type, so that methods can be added.
mod sealed {
    pub trait Sealed {}

    impl<L> Sealed for tower::ServiceBuilder<L> {}
}
