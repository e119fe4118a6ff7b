//! Missing or misplaced layers are logged once, at WARN.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use reattempt::strategy::BestEffort;
use reattempt::{CallContext, Failure, RetryLayer, Stage, Verdict, reason};
use reattempt_couchbase::{
    HttpService, ServiceClassifier, ServiceErrorLayer, ServiceIdempotencyLayer,
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use reattempt::test_util as listen;

const QUERY: HttpService = HttpService::query();

async fn works(_: Request<()>) -> Result<Response<Full<Bytes>>, BoxError> {
    Ok(Response::new(Full::from("{}")))
}

fn lost<B>(_: Result<&Response<B>, &BoxError>, _: &CallContext) -> Verdict {
    Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight))
}

#[tokio::test]
async fn each_stack_that_reads_no_bodies_is_reported() {
    let listener = listen::listen();
    let right = ServiceBuilder::new()
        .layer(ServiceIdempotencyLayer::new(QUERY))
        .layer(RetryLayer::new(
            ServiceClassifier::new(QUERY, lost),
            BestEffort::new(),
        ))
        .layer(ServiceErrorLayer::new(QUERY))
        .service_fn(works);
    right.oneshot(Request::new(())).await.unwrap();
    assert_eq!(listener.warnings(), [""; 0], "correct order");

    for stack in 1..=2 {
        let missing = ServiceBuilder::new()
            .layer(RetryLayer::new(
                ServiceClassifier::new(QUERY, lost),
                BestEffort::new(),
            ))
            .service_fn(works);
        for _ in 0..3 {
            missing.clone().oneshot(Request::new(())).await.unwrap();
        }
        let warnings = listener.warnings();
        assert_eq!(warnings.len(), stack, "{warnings:?}");
        assert!(warnings[stack - 1].contains("put ServiceErrorLayer below the recovery layer"));
    }
}

#[tokio::test]
async fn layers_in_wrong_places_say_so_once() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(ServiceErrorLayer::new(QUERY))
        .layer(RetryLayer::new(
            ServiceClassifier::new(QUERY, lost),
            BestEffort::new(),
        ))
        .layer(ServiceIdempotencyLayer::new(QUERY))
        .layer(ServiceErrorLayer::new(QUERY))
        .service_fn(works);
    for _ in 0..3 {
        service.clone().oneshot(Request::new(())).await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("ServiceErrorLayer is outside of any recovery layer"));
    assert!(warnings[1].starts_with("ServiceIdempotencyLayer is inside the recovery layer"));
}
