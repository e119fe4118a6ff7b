//! A missing or misplaced layer is reported once, at WARN.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use reattempt::strategy::RetryOnce;
use reattempt::{
    DeadlineLayer, HasCallContext, HedgeLayer, RetryLayer, RouteLayer, RoutePolicy, ThrottleLayer,
    TokenBucket,
};
use reattempt_grpc::spans::{AttemptSpanLayer, CallSpanLayer};
use reattempt_grpc::stats::{GrpcStats, SentBody};
use reattempt_grpc::{
    AsGrpcStatus, CallCredentialsLayer, GRPC_STATUS, GrpcClassifier, GrpcOutcomeLayer,
    GrpcTimeoutLayer, HoldHeadersLayer, LimitedRequestBody, MessageLimitLayer,
    PreviousAttemptsLayer, WaitForReadyLayer,
};
use reattempt_http::body::ReplayBody;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use reattempt::test_util as listen;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Headers, then the status in trailers.
async fn streams<B>(_: Request<B>) -> Result<Response<Body>, BoxError> {
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

#[tokio::test(start_paused = true)]
async fn each_stack_that_never_counts_a_success_is_reported() {
    let listener = listen::listen();
    let right = ServiceBuilder::new()
        .layer(bucket())
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .layer(GrpcOutcomeLayer::new())
        .service_fn(streams);
    right.oneshot(request()).await.unwrap();
    let uncounted = ServiceBuilder::new()
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .service_fn(streams);
    uncounted.oneshot(request()).await.unwrap();
    assert_eq!(listener.warnings(), [""; 0], "all is well");

    for stack in 1..=2 {
        let missing = ServiceBuilder::new()
            .layer(bucket())
            .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
            .service_fn(streams);
        for _ in 0..3 {
            missing.clone().oneshot(request()).await.unwrap();
        }
        let warnings = listener.warnings();
        assert_eq!(warnings.len(), stack, "{warnings:?}");
        assert!(warnings[stack - 1].starts_with("RetryLayer got a response that ends later"));
        assert!(warnings[stack - 1].contains("GrpcOutcomeLayer"));
    }
}

#[tokio::test(start_paused = true)]
async fn layers_in_wrong_places_say_so_once() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(PreviousAttemptsLayer)
        .layer(GrpcOutcomeLayer::new())
        .layer(DeadlineLayer::new(Duration::from_secs(9)).on_elapsed(AsGrpcStatus))
        .layer(GrpcTimeoutLayer)
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .service_fn(streams);
    for _ in 0..3 {
        service.clone().oneshot(request()).await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("PreviousAttemptsLayer is outside of any recovery layer"));
    assert!(warnings[1].starts_with("GrpcOutcomeLayer is outside of any recovery layer"));
    assert!(warnings[2].starts_with("GrpcTimeoutLayer is inside the DeadlineLayer"));
}

#[tokio::test(start_paused = true)]
async fn layers_in_their_places_say_nothing() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(bucket())
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .layer(PreviousAttemptsLayer)
        .layer(GrpcOutcomeLayer::new())
        .service_fn(streams);
    service.oneshot(request()).await.unwrap();
    assert_eq!(listener.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn optional_layers_in_wrong_places_say_so_once() {
    let listener = listen::listen();
    let nothing = |_: &http::request::Parts| std::future::ready(Ok(HeaderMap::new()));
    let service = ServiceBuilder::new()
        .layer(WaitForReadyLayer::new())
        .layer(CallCredentialsLayer::new(nothing))
        .layer(HoldHeadersLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .layer(MessageLimitLayer::new().request(9))
        .service_fn(|_: Request<LimitedRequestBody<ReplayBody<Empty<Bytes>>>>| {
            streams(Request::new(()))
        });
    for _ in 0..2 {
        let request = request().map(|()| ReplayBody::new(Empty::new()));
        service.clone().oneshot(request).await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings[0].starts_with("WaitForReadyLayer is outside of any recovery layer"));
    assert!(warnings[1].starts_with("CallCredentialsLayer is outside of any recovery layer"));
    assert!(warnings[2].starts_with("HoldHeadersLayer is outside of any recovery layer"));
    assert!(warnings[3].starts_with("MessageLimitLayer is inside the recovery layer"));
}

fn stats() -> GrpcStats {
    GrpcStats::new((), "dns:///h")
}

/// Unavailable at first, then like [`streams`].
async fn recovers(request: Request<SentBody<()>>) -> Result<Response<Body>, BoxError> {
    if request.context().is_some_and(|call| call.attempt() > 1) {
        return streams(request).await;
    }
    let busy = Response::builder().header(GRPC_STATUS, 14);
    Ok(busy.body(Empty::new().boxed_unsync())?)
}

#[tokio::test(start_paused = true)]
async fn layers_that_measure_say_so_once_where_they_see_too_little() {
    let listener = listen::listen();
    let stats = stats();
    let unrecovered = ServiceBuilder::new()
        .layer(AttemptSpanLayer::new())
        .layer(stats.attempt_layer())
        .service_fn(streams);
    let inside = ServiceBuilder::new()
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .layer(CallSpanLayer::new())
        .layer(stats.call_layer())
        .service_fn(streams);
    for _ in 0..3 {
        unrecovered.clone().oneshot(request()).await.unwrap();
        inside.clone().oneshot(request()).await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings[0].starts_with("AttemptSpanLayer is outside of any recovery layer"));
    assert!(warnings[1].starts_with("AttemptStatsLayer is outside of any recovery layer"));
    assert!(warnings[2].starts_with("CallSpanLayer is inside the recovery layer"));
    assert!(warnings[3].starts_with("CallStatsLayer is inside the recovery layer"));
}

#[tokio::test(start_paused = true)]
async fn below_a_hedge_layer_that_passes_a_call_they_say_nothing() {
    let listener = listen::listen();
    let stats = stats();
    let alone = Arc::new(RoutePolicy::new("alone").no_recovery());
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(move |_: &Request<()>| Some(alone.clone())))
        .layer(stats.call_layer())
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()).observer(Arc::new(stats.clone())))
        .layer(AttemptSpanLayer::new())
        .layer(stats.attempt_layer())
        .layer(PreviousAttemptsLayer)
        .service_fn(streams);
    service.oneshot(request()).await.unwrap();
    assert_eq!(listener.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn statistics_that_miss_a_part_say_so_once() {
    let listener = listen::listen();
    let retry = || RetryLayer::new(GrpcClassifier::new(), RetryOnce);
    let one = stats();
    let unobserved = ServiceBuilder::new()
        .layer(one.call_layer())
        .layer(retry())
        .layer(one.attempt_layer())
        .service_fn(recovers);
    let two = stats();
    let without_call_layer = ServiceBuilder::new()
        .layer(retry().observer(Arc::new(two.clone())))
        .layer(two.attempt_layer())
        .service_fn(recovers);
    for _ in 0..3 {
        unobserved.clone().oneshot(request()).await.unwrap();
        without_call_layer.clone().oneshot(request()).await.unwrap();
    }
    assert_eq!(one.retry_statistics()["a.B/C"].attempts(), 0);
    assert_eq!(two.retry_statistics()["other"].attempts(), 3);
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("GrpcStats receives no retry reports"));
    assert!(warnings[1].starts_with("GrpcStats observes calls that did not come through"));
}

#[tokio::test(start_paused = true)]
async fn statistics_with_all_their_parts_say_nothing() {
    let listener = listen::listen();
    let stats = stats();
    let service = ServiceBuilder::new()
        .layer(CallSpanLayer::new())
        .layer(stats.call_layer())
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce).observer(Arc::new(stats.clone())))
        .layer(AttemptSpanLayer::new())
        .layer(stats.attempt_layer())
        .service_fn(recovers);
    service.oneshot(request()).await.unwrap();
    assert_eq!(stats.retry_statistics()["a.B/C"].attempts(), 1);
    assert_eq!(listener.warnings(), [""; 0]);
}
