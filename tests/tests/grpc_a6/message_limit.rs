//! Limits on the length of messages (`maxRequestMessageBytes`, `maxResponseMessageBytes`), as the
//! server sees them.

use super::*;
use reattempt::StopReason;
use reattempt_testbed::grpc::ErrorCode;

/// Limits, with a policy that would retry the code they fail with.
fn limits(request: u64, response: u64) -> ServiceConfig {
    config(&format!(
        r#""maxRequestMessageBytes":{request},"maxResponseMessageBytes":{response},
        "retryPolicy":{{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,
        "retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE","CANCELLED","INTERNAL"]}}"#
    ))
}

fn cancelled_with(calls: &[SeenCall]) -> Vec<Option<ErrorCode>> {
    let code = |call: &SeenCall| call.cancelled.and_then(|cancelled| cancelled.code);
    calls.iter().map(code).collect()
}

#[tokio::test]
async fn a_request_message_that_is_too_long_never_reaches_the_server() {
    let server = start(Step::ok("pie")).await;
    let config = limits(5, 100);
    let ended = Channel::new(&config).call(unary(&server)).await;
    assert_eq!(ended.code, Code::ResourceExhausted);
    let said = "a request message has 6 bytes, and at most 5 are allowed";
    assert_eq!(ended.head["grpc-message"], said);
    assert_eq!(
        (ended.info.attempts(), ended.info.stopped()),
        (1, Some(StopReason::Fatal))
    );
    assert_eq!(tokens(&config), Some(10_000));
    // The head may have been sent by then, and the stream is reset.
    for call in server.seen() {
        assert!(call.messages.is_empty() && !call.half_closed);
    }
    let right = Channel::new(&limits(6, 100)).call(unary(&server)).await;
    assert_eq!(right.code, Code::Ok);
}

#[tokio::test]
async fn a_response_message_that_is_too_long_cancels_the_stream() {
    let server = start(Step::messages(["pie", "a whole tart", "pie"]).end_hang()).await;
    let config = limits(100, 11);
    let channel = Channel::new(&config);
    let ended = channel.call(unary(&server)).await;
    assert_eq!(
        (ended.code, ended.messages),
        (Code::ResourceExhausted, vec!["pie".into()])
    );
    let cancelled = within(server.wait_cancelled(1)).await;
    assert_eq!(cancelled_with(&cancelled), [Some(ErrorCode::CANCEL)]);
    assert_eq!((server.seen_count(), tokens(&config)), (1, Some(10_000)));
}
