//! A deadline above a service whose error has no room for it.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::{DeadlineLayer, RetryLayer, strategy::MaxAttempts};
use reattempt_http::{HttpClassifier, body::ReplayBodyLayer};
use tower::{ServiceBuilder, ServiceExt};

fn main() {
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(5)))
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .service(Client::builder(TokioExecutor::new()).build_http());
    let _ = stack.oneshot(Request::new(Full::<Bytes>::default()));
}
