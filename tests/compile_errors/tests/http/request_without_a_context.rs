//! A plain request, which has no room for the call's context.

use std::convert::Infallible;

use reattempt::{RetryLayer, retry_fn::AnyError, strategy::RetryOnce};
use tower::{ServiceBuilder, ServiceExt};

#[derive(Clone)]
struct Get(&'static str);

fn main() {
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(AnyError, RetryOnce))
        .service_fn(async |get: Get| Ok::<_, Infallible>(get.0));
    let _ = stack.oneshot(Get("key"));
}
