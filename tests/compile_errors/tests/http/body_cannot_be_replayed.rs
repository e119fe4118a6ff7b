//! An HTTP body that cannot be sent twice, below a recovery layer.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use reattempt::{RetryLayer, strategy::MaxAttempts};
use reattempt_http::HttpClassifier;
use tower::{ServiceBuilder, ServiceExt};

fn main() {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .service(client);
    let _ = stack.oneshot(Request::new(Full::default()));
}
