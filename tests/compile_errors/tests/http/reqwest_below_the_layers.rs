//! reqwest's client directly below a recovery layer.

use reattempt::{RetryLayer, strategy::MaxAttempts};
use reattempt_http::HttpClassifier;
use reqwest::{Client, Method, Request};
use tower::{ServiceBuilder, ServiceExt};

fn main() {
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .service(Client::new());
    let request = Request::new(Method::GET, "http://localhost".parse().unwrap());
    let _ = stack.oneshot(request);
}
