//! Admission, backends with health and the circuit breaker of a client.

use std::sync::Arc;

use reattempt::admission::Admission;
use reattempt::backends::Backends;
use reattempt::health::{CircuitBreaker, LiveHealthPolicy};
use reattempt::{AdmissionLayer, CircuitBreakerLayer};
use tower_layer::{Identity, Stack};

use super::GrpcClientLayer;
use crate::{AsGrpcStatus, GrpcClassifier, GrpcPushback};

/// The circuit breaker of a client.
type Breaker = CircuitBreakerLayer<GrpcClassifier, AsGrpcStatus>;

impl<R, C, A> GrpcClientLayer<R, C, A> {
    /// Refuses calls while the server accepts too few of them: UNAVAILABLE, and nothing is sent.
    /// The log has them; the observers that were added before get their ends. The layers of
    /// telemetry that are added later count them, those that were added before do not.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use reattempt::Governor;
    /// use reattempt::admission::Admission;
    /// use reattempt_grpc::GrpcClientLayer;
    /// use reattempt_grpc::service_config::{Options, ServiceConfig};
    /// use tonic::transport::Endpoint;
    /// use tower::ServiceBuilder;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reattempt::config::Faults> {
    /// let options = Options::new().throttle(Arc::new(Governor::default()));
    /// let config = ServiceConfig::parse_with("{}", &options)?;
    /// let channel = ServiceBuilder::new()
    ///     .layer(GrpcClientLayer::new(config).admission(Arc::new(Admission::default())))
    ///     .service(Endpoint::from_static("http://[::1]:50051").connect_lazy());
    /// # fn is_a_channel<S: tonic::client::GrpcService<tonic::body::Body>>(_: S) {}
    /// # is_a_channel(channel);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn admission(
        self,
        admission: Arc<Admission>,
    ) -> GrpcClientLayer<R, Stack<C, AdmissionLayer<AsGrpcStatus>>, Stack<A, Identity>> {
        let mut layer = AdmissionLayer::new(admission).on_refused(AsGrpcStatus);
        if let Some(observer) = &self.observer {
            layer = layer.observer(Arc::clone(observer));
        }
        self.telemetry(layer, Identity::new())
    }

    /// These channels, one for each backend, with health: the innermost service. A backend that
    /// fails is ejected for a time, each attempt goes to the less loaded of two, and a further one
    /// to a backend that the call has not tried. It has this layer's classifier, and the observers
    /// that were added before; keep a clone to change the list and to see its state. A response
    /// whose status comes in trailers counts by that status, once it has ended.
    ///
    /// ```
    /// use reattempt::health::HealthPolicy;
    /// use reattempt_grpc::GrpcClientLayer;
    /// use reattempt_grpc::service_config::ServiceConfig;
    /// use tonic::transport::Endpoint;
    /// use tower::ServiceBuilder;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reattempt::config::Faults> {
    /// let connect = |name| (name, Endpoint::from_static(name).connect_lazy());
    /// let replicas = ["http://10.0.0.1:50051", "http://10.0.0.2:50051"].map(connect);
    /// let layer = GrpcClientLayer::new(ServiceConfig::parse("{}")?);
    /// let backends = layer.backends(replicas, HealthPolicy::standard());
    /// let channel = ServiceBuilder::new().layer(layer).service(backends.clone());
    /// # fn is_a_channel<S: tonic::client::GrpcService<tonic::body::Body>>(_: S) {}
    /// # is_a_channel(channel);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn backends<N: Into<Arc<str>>, S: Send + 'static>(
        &self,
        channels: impl IntoIterator<Item = (N, S)>,
        policy: impl Into<LiveHealthPolicy>,
    ) -> Backends<S, GrpcClassifier, GrpcPushback> {
        let backends = Backends::new(channels, policy, self.classifier).pushback(GrpcPushback);
        match &self.observer {
            Some(observer) => backends.observer(Arc::clone(observer)),
            None => backends,
        }
    }

    /// Refuses attempts while the server fails: nothing is sent, and the call ends at once with
    /// UNAVAILABLE. It has the classifier that is set. The observers that were added before get its
    /// openings and closings; the log has them anyway.
    ///
    /// A refused connection counts as a failure, also of a call with `waitForReady`, and a call
    /// that the open circuit refuses no longer waits. One change is one event: of clients that
    /// share a breaker the first that has an observer notifies it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Instant;
    /// use reattempt::health::{CircuitBreaker, HealthPolicy};
    /// use reattempt_grpc::GrpcClientLayer;
    /// use reattempt_grpc::service_config::ServiceConfig;
    /// use tonic::transport::Endpoint;
    /// use tower::ServiceBuilder;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reattempt::config::Faults> {
    /// let breaker = CircuitBreaker::new(HealthPolicy::standard(), Instant::now());
    /// let breaker = Arc::new(breaker.with_name("cart"));
    /// let config = ServiceConfig::parse("{}")?;
    /// let channel = ServiceBuilder::new()
    ///     .layer(GrpcClientLayer::new(config).circuit_breaker(Arc::clone(&breaker)))
    ///     .service(Endpoint::from_static("http://[::1]:50051").connect_lazy());
    /// breaker.open(); // by hand, for maintenance
    /// # fn is_a_channel<S: tonic::client::GrpcService<tonic::body::Body>>(_: S) {}
    /// # is_a_channel(channel);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn circuit_breaker(
        self,
        breaker: Arc<CircuitBreaker>,
    ) -> GrpcClientLayer<R, Stack<C, Identity>, Stack<A, Breaker>> {
        let mut layer = CircuitBreakerLayer::new(breaker, self.classifier).on_open(AsGrpcStatus);
        if let Some(observer) = &self.observer {
            layer = layer.observer(Arc::clone(observer));
        }
        self.telemetry(Identity::new(), layer)
    }
}
