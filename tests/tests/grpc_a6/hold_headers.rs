//! Servers that send failures in real trailers, and calls that hold headers for one frame.

use super::*;
use reattempt_grpc::Unary;

fn marked(server: &Server) -> Request<Body> {
    let mut request = unary(server);
    request.extensions_mut().insert(Unary);
    request
}

/// R10: headers and trailers, each in a frame of its own, become one response that is retried;
/// pushback is honoured.
#[tokio::test]
async fn a_failure_in_real_trailers_is_sent_again() {
    let server = start(
        Script::new()
            .then(Step::headers_then_status(UNAVAILABLE).end_after(Duration::from_millis(50)))
            .then(Step::headers_then_status(UNAVAILABLE).pushback("20"))
            .otherwise(Step::ok("pie")),
    )
    .await;
    let config = retrying(4, "0.001s");
    let ended = Channel::new(&config).call(marked(&server)).await;
    assert_eq!(
        (ended.code, &ended.messages[..]),
        (Code::Ok, &["pie".into()][..])
    );
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some(1), Some(2)]);
    assert!(seen[2].arrival - seen[1].arrival >= Duration::from_millis(20));
    assert_eq!(tokens(&config), Some(8_500));
}

/// R10: off unless the call is marked.
#[tokio::test]
async fn a_call_that_is_not_marked_is_committed_at_its_headers() {
    let server = start(Step::headers_then_status(UNAVAILABLE)).await;
    let ended = Channel::new(&retrying(4, "0.001s"))
        .call(unary(&server))
        .await;
    assert_eq!((ended.code, server.seen_count()), (Code::Unavailable, 1));
}

/// R10, R36: a message commits the call, and nothing of the response is lost.
#[tokio::test]
async fn a_message_is_not_held_back() {
    let answer = Step::messages(["pie", "tart"])
        .initial("x-oven", "3")
        .status(UNAVAILABLE, "no more")
        .pushback("1");
    let server = start(answer).await;
    let ended = Channel::new(&retrying(4, "0.001s"))
        .call(marked(&server))
        .await;
    assert_eq!((ended.code, server.seen_count()), (Code::Unavailable, 1));
    assert_eq!(ended.messages, ["pie", "tart"]);
    assert_eq!(ended.head["x-oven"], "3");
}

/// The caller gets the fields of both blocks.
#[tokio::test]
async fn the_last_failure_keeps_headers_and_trailers() {
    let answer = Step::headers_then_status(INVALID_ARGUMENT)
        .status(INVALID_ARGUMENT, "50% of it")
        .initial("x-oven", "3")
        .trailer("x-oven", "4")
        .trailer("x-detail", "cold");
    let server = start(answer).await;
    let ended = Channel::new(&retrying(4, "0.001s"))
        .call(marked(&server))
        .await;
    assert_eq!(
        (ended.code, server.seen_count()),
        (Code::InvalidArgument, 1)
    );
    let ovens: Vec<_> = ended.head.get_all("x-oven").iter().collect();
    assert_eq!(ovens, ["3", "4"]);
    assert_eq!(ended.head["x-detail"], "cold");
    assert_eq!(ended.head["grpc-message"], "50%25 of it");
}
