//! What is missing or stands in the wrong place is said once, at WARN.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use reattempt::strategy::Once;
use reattempt::{DeadlineLayer, RetryLayer, ThrottleLayer, TokenBucket};
use reattempt_grpc::{
    AsGrpcStatus, GRPC_STATUS, GrpcClassifier, GrpcOutcomeLayer, GrpcTimeoutLayer,
    PreviousAttemptsLayer,
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

#[path = "../../reattempt/src/probe/listen.rs"]
pub mod listen;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Headers, then the status in trailers.
async fn streams(_: Request<()>) -> Result<Response<Body>, BoxError> {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, 0.into());
    let end = std::future::ready(Some(Ok(trailers)));
    Ok(Response::new(
        Empty::new().with_trailers(end).boxed_unsync(),
    ))
}

fn request() -> Request<()> {
    let request = Request::post("http://h/a.B/C").header("grpc-timeout", "1S");
    request.body(()).unwrap()
}

fn bucket() -> ThrottleLayer {
    ThrottleLayer::new(Arc::new(TokenBucket::new(10, 100).unwrap()))
}

/// The word of the classifier is given once a process: one test holds both sides of it.
#[tokio::test(start_paused = true)]
async fn a_throttle_that_would_hear_of_failures_only_is_warned_of() {
    let listener = listen::listen();
    let right = ServiceBuilder::new()
        .layer(bucket())
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .layer(GrpcOutcomeLayer::new())
        .service_fn(streams);
    right.oneshot(request()).await.unwrap();
    let uncounted = ServiceBuilder::new()
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .service_fn(streams);
    uncounted.oneshot(request()).await.unwrap();
    assert_eq!(listener.heard(), [""; 0], "all is well");

    let missing = ServiceBuilder::new()
        .layer(bucket())
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .service_fn(streams);
    for _ in 0..3 {
        missing.clone().oneshot(request()).await.unwrap();
    }
    let heard = listener.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("GrpcClassifier leaves answers open"));
    assert!(heard[0].contains("GrpcOutcomeLayer below the recovery layer"));
}

#[tokio::test(start_paused = true)]
async fn layers_in_wrong_places_say_so_once() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(PreviousAttemptsLayer)
        .layer(GrpcOutcomeLayer::new())
        .layer(DeadlineLayer::new(Duration::from_secs(9)).on_elapsed(AsGrpcStatus))
        .layer(GrpcTimeoutLayer)
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .service_fn(streams);
    for _ in 0..3 {
        service.clone().oneshot(request()).await.unwrap();
    }
    let heard = listener.heard();
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].starts_with("PreviousAttemptsLayer is outside of any recovery layer"));
    assert!(heard[1].starts_with("GrpcOutcomeLayer is outside of any recovery layer"));
    assert!(heard[2].starts_with("GrpcTimeoutLayer is inside the DeadlineLayer"));
}

#[tokio::test(start_paused = true)]
async fn layers_in_their_places_say_nothing() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(bucket())
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .layer(PreviousAttemptsLayer)
        .layer(GrpcOutcomeLayer::new())
        .service_fn(streams);
    service.oneshot(request()).await.unwrap();
    assert_eq!(listener.heard(), [""; 0]);
}
