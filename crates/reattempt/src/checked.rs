//! `checked`: shows why a stack is not a service.

use tower_service::Service;

/// Takes a service for requests of type `Req` and returns it unchanged.
///
/// A stack whose layers do not fit together is not a [`Service`], and calling a method on it only
/// reports that "the method exists but its trait bounds were not satisfied". This function has the
/// bound itself, so that the compiler shows the layers' own messages: which classifier, reader or
/// conversion is missing, and for which types.
///
/// ```
/// use reattempt::{Call, CallContext, RetryLayer, Verdict, checked, strategy::RetryOnce};
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::convert::Infallible> {
/// let classifier = |_: Result<&u8, &std::convert::Infallible>, _: &CallContext| Verdict::Success;
/// let stack = ServiceBuilder::new()
///     .layer(RetryLayer::new(classifier, RetryOnce))
///     .service_fn(|_: Call<&'static str>| async { Ok(7) });
/// let stack = checked::<Call<&'static str>, _>(stack);
/// assert_eq!(stack.oneshot(Call::new("get")).await?, 7);
/// # Ok(()) }
/// ```
///
/// A classifier for the responses of another protocol:
///
/// ```compile_fail,E0277
/// # use reattempt::{Call, CallContext, RetryLayer, Verdict, checked, strategy::RetryOnce};
/// # use tower::ServiceBuilder;
/// let classifier = |_: Result<&String, &std::convert::Infallible>, _: &CallContext| Verdict::Success;
/// let stack = ServiceBuilder::new()
///     .layer(RetryLayer::new(classifier, RetryOnce))
///     .service_fn(|_: Call<&'static str>| async { Ok::<u8, std::convert::Infallible>(7) });
/// let stack = checked::<Call<&'static str>, _>(stack);
/// ```
#[must_use]
pub fn checked<Req, S: Service<Req>>(service: S) -> S {
    service
}
