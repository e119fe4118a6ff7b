//! What the log has of a call that its limit ended.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use reattempt::RetryLayer;
use reattempt::strategy::NeverRetry;
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::*;
use crate::GrpcClassifier;
use crate::follow::tests::Said;

const MESSAGE: Bytes = Bytes::from_static(b"\0\0\0\0\x05hello");

/// The events of a call with these limits, whose request and response have a message of five bytes.
async fn events(limits: MessageLimitLayer) -> Vec<String> {
    let (said, _guard) = Said::follow();
    let service = ServiceBuilder::new()
        .layer(limits)
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), NeverRetry))
        .service_fn(
            |request: Request<ReplayBody<LimitedRequestBody<Full<Bytes>>>>| async {
                request.into_body().collect().await?;
                let response = Response::builder().header("content-type", "application/grpc");
                Ok::<_, BoxError>(response.body(Full::new(MESSAGE))?)
            },
        );
    let response = service.oneshot(Request::new(Full::new(MESSAGE))).await;
    response.unwrap().into_body().collect().await.unwrap();
    let events = said.events().into_iter();
    events.map(|(_, event)| event).collect()
}

#[tokio::test]
async fn a_call_with_a_request_that_is_too_long_failed() {
    let events = events(MessageLimitLayer::new().request(4)).await;
    let [event] = &events[..] else {
        panic!("one event, not {events:?}");
    };
    assert!(event.starts_with("WARN "), "{event}");
    assert!(event.contains("stopped=\"fatal\""), "{event}");
    assert!(event.contains("message=call failed "), "{event}");
}

#[tokio::test]
async fn a_response_that_is_too_long_is_logged_as_broken() {
    let events = events(MessageLimitLayer::new().response(4)).await;
    let [event] = &events[..] else {
        panic!("one event, not {events:?}");
    };
    assert!(event.starts_with("WARN "), "{event}");
    assert!(event.contains("stopped=\"fatal\""), "{event}");
    let said = "message=call failed after its response had begun";
    assert!(event.contains(said), "{event}");
}
