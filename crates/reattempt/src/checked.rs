//! `checked`: brings out why a stack is no service.

use tower_service::Service;

/// Takes a service for requests of type `Req`, and gives it back as it is.
///
/// A stack whose layers do not fit together is no [`Service`], and calling a method on it says only
/// that "the method exists but its trait bounds were not satisfied". This asks for the bound
/// itself, so that the compiler shows the layers' own messages: which classifier, reader or
/// conversion is missing, and for which types.
///
/// ```
/// use reattempt::{Call, CallContext, RetryLayer, Verdict, checked, strategy::Once};
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::convert::Infallible> {
/// let classifier = |_: Result<&u8, &std::convert::Infallible>, _: &CallContext| Verdict::Success;
/// let stack = ServiceBuilder::new()
///     .layer(RetryLayer::new(classifier, Once))
///     .service_fn(|_: Call<&'static str>| async { Ok(7) });
/// let stack = checked::<Call<&'static str>, _>(stack);
/// assert_eq!(stack.oneshot(Call::new("get")).await?, 7);
/// # Ok(()) }
/// ```
///
/// A classifier of another protocol's answers:
///
/// ```compile_fail,E0277
/// # use reattempt::{Call, CallContext, RetryLayer, Verdict, checked, strategy::Once};
/// # use tower::ServiceBuilder;
/// let classifier = |_: Result<&String, &std::convert::Infallible>, _: &CallContext| Verdict::Success;
/// let stack = ServiceBuilder::new()
///     .layer(RetryLayer::new(classifier, Once))
///     .service_fn(|_: Call<&'static str>| async { Ok::<u8, std::convert::Infallible>(7) });
/// let stack = checked::<Call<&'static str>, _>(stack);
/// ```
#[must_use]
pub fn checked<Req, S: Service<Req>>(service: S) -> S {
    service
}
