use std::convert::Infallible;

use crate::{Call, HasCallContext};
use tower::{ServiceBuilder, ServiceExt};

use super::*;

#[tokio::test]
async fn a_request_is_wrapped_and_unwrapped() {
    let service = ServiceBuilder::new()
        .layer(CallLayer::new())
        .map_request(|mut call: Call<u8>| {
            call.context_mut().set_data("seen");
            call
        })
        .layer(UncallLayer::new())
        .service_fn(|n: u8| async move { Ok::<_, Infallible>(n + 1) });
    assert_eq!(service.oneshot(1).await, Ok(2));
}
