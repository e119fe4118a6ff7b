//! An error type that the classifier does not know.

use bytes::Bytes;
use http::{Request, Response};
use reattempt::{RetryLayer, strategy::MaxAttempts};
use reattempt_http::HttpClassifier;
use tower::{Service, ServiceBuilder, ServiceExt};

struct OwnError;

async fn send() {
    let mut stack = ServiceBuilder::new()
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .service_fn(async |_: Request<Bytes>| Err::<Response<()>, _>(OwnError));
    let service = stack.ready().await.unwrap_or_else(|_| unreachable!());
    let _ = service.call(Request::new(Bytes::new()));
}

fn main() {
    drop(send());
}
