//! Servers that send failures in real trailers, and calls that hold headers for one frame.

use super::*;
use reattempt_grpc::Unary;

fn marked(server: &Server) -> Request<Body> {
    let mut request = unary(&server.uri());
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
