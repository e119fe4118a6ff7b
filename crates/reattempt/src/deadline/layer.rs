use std::time::Duration;

use tower_layer::Layer;

use super::{AsError, Deadline};
use crate::StackCheck;

/// Ends calls at their deadline; below the recovery layer, attempts at theirs.
///
/// Of several deadlines (the layer's, the route policy's, one set by the caller) the earliest
/// applies; with [`unless_policy`](Self::unless_policy) the policy's replaces the layer's.
#[derive(Clone, Debug)]
pub struct DeadlineLayer<M = AsError> {
    timeout: Option<Duration>,
    unless_policy: bool,
    on_elapsed: M,
}

impl DeadlineLayer {
    /// Sets the timeout of each call (or attempt).
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            unless_policy: false,
            on_elapsed: AsError,
        }
    }

    /// Without a timeout of its own: enforces only the policy's and the caller's.
    #[must_use]
    pub const fn no_timeout() -> Self {
        Self {
            timeout: None,
            unless_policy: false,
            on_elapsed: AsError,
        }
    }
}

impl<M> DeadlineLayer<M> {
    /// The layer's own timeout is a default: a policy with one replaces it, also by a longer one. A
    /// deadline that the caller or an outer layer has set still applies if it is earlier.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use reattempt::{Call, DeadlineLayer, Elapsed, RouteLayer, RoutePolicy};
    /// use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), BoxError> {
    /// let report = Arc::new(RoutePolicy::new("report").with_timeout(Duration::from_secs(60)));
    /// let service = ServiceBuilder::new()
    ///     .layer(RouteLayer::new(report))
    ///     .layer(DeadlineLayer::new(Duration::from_secs(5)).unless_policy())
    ///     .service_fn(|_: Call<()>| std::future::pending::<Result<(), BoxError>>());
    /// let elapsed = service.oneshot(Call::new(())).await.unwrap_err().downcast::<Elapsed>()?;
    /// assert_eq!(elapsed.timeout, Some(Duration::from_secs(60)));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn unless_policy(mut self) -> Self {
        self.unless_policy = true;
        self
    }

    /// Sets the outcome for an elapsed deadline; by default an error ([`AsError`]).
    #[must_use]
    pub fn on_elapsed<N>(self, on_elapsed: N) -> DeadlineLayer<N> {
        DeadlineLayer {
            timeout: self.timeout,
            unless_policy: self.unless_policy,
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
            unless_policy: self.unless_policy,
            on_elapsed: self.on_elapsed.clone(),
            of_attempts: false,
            inside_recovery: StackCheck::OFF,
        }
    }
}

/// Ends each attempt at its timeout: a [`DeadlineLayer`] for the position below the recovery
/// layer. Anywhere else it bounds the whole call, and logs this once, at WARN.
///
/// An attempt that ends so is retried as one whose response was lost: the request may have been
/// carried out.
///
/// ```
/// use std::time::Duration;
/// use reattempt::deadline::AttemptDeadlineLayer;
/// use reattempt::{Call, CallContext, ClientError, HasCallContext, Idempotency, RetryLayer};
/// use reattempt::{Failure, Stage, Verdict, classify_fn, reason, strategy::RetryOnce};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), ClientError<std::io::Error>> {
/// let lost = Failure::new(reason::SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight);
/// let classifier = classify_fn(move |outcome: Result<&u32, &ClientError<_>>, _: &CallContext| {
///     if outcome.is_ok() { Verdict::Success } else { Verdict::Retry(lost) }
/// });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(classifier, RetryOnce))
///     .layer(AttemptDeadlineLayer::new(Duration::from_millis(50)))
///     .layer(reattempt::ClientErrorLayer)
///     .service_fn(|call: Call<()>| async move {
///         let attempt = call.context().map_or(0, CallContext::attempt);
///         // The first attempt hangs; the second responds.
///         if attempt == 1 { std::future::pending::<()>().await }
///         Ok(attempt)
///     });
/// let mut read = Call::new(());
/// read.context_mut().set_idempotency(Idempotency::Idempotent);
/// assert_eq!(service.oneshot(read).await?, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct AttemptDeadlineLayer<M = AsError> {
    layer: DeadlineLayer<M>,
    inside_recovery: StackCheck,
}

impl AttemptDeadlineLayer {
    /// Sets the timeout of each attempt; the policy's applies if it is shorter, or with
    /// [`unless_policy`](Self::unless_policy).
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self::of(DeadlineLayer::new(timeout))
    }

    /// Without a timeout of its own: enforces only the policy's.
    #[must_use]
    pub fn by_policy() -> Self {
        Self::of(DeadlineLayer::no_timeout())
    }
}

impl<M> AttemptDeadlineLayer<M> {
    /// The layer's own timeout is a default: a policy with one replaces it
    /// ([`DeadlineLayer::unless_policy`]).
    #[must_use]
    pub fn unless_policy(mut self) -> Self {
        self.layer = self.layer.unless_policy();
        self
    }

    fn of(layer: DeadlineLayer<M>) -> Self {
        Self {
            layer,
            inside_recovery: StackCheck::default(),
        }
    }

    /// Sets the outcome of an attempt that ends at its timeout; by default an error ([`AsError`]).
    #[must_use]
    pub fn on_elapsed<N>(self, on_elapsed: N) -> AttemptDeadlineLayer<N> {
        AttemptDeadlineLayer {
            layer: self.layer.on_elapsed(on_elapsed),
            inside_recovery: self.inside_recovery,
        }
    }
}

impl<S, M: Clone> Layer<S> for AttemptDeadlineLayer<M> {
    type Service = Deadline<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline {
            of_attempts: true,
            inside_recovery: self.inside_recovery.clone(),
            ..self.layer.layer(inner)
        }
    }
}
