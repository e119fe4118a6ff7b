//! Hedges and their cancellation on the wire (R40 to R50).

use super::*;
use reattempt_testbed::grpc::{Cancelled, ErrorCode};

fn codes(cancelled: &[SeenCall]) -> Vec<Option<ErrorCode>> {
    let code = |call: &SeenCall| {
        call.cancelled
            .and_then(|cancelled: Cancelled| cancelled.code)
    };
    cancelled.iter().map(code).collect()
}

/// R40, R41, R50
#[tokio::test]
async fn the_first_answer_wins_and_the_losers_are_cancelled() {
    let server = start(
        Script::new()
            .then_times(2, Step::hang())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let channel = Channel::new(&hedging(3, "0.01s"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(
        (ended.code, &ended.messages[..]),
        (Code::Ok, &["pie".into()][..])
    );
    let cancelled = within(server.wait_cancelled(2)).await;
    assert_eq!(codes(&cancelled), [Some(ErrorCode::CANCEL); 2]);
    assert_eq!(previous(&server.seen()), [None, Some(1), Some(2)]);
}

/// R41: response headers commit, not the status.
#[tokio::test]
async fn headers_commit_and_cancel_the_others_before_the_stream_ends() {
    let server = start(
        Script::new()
            .then(Step::hang())
            .otherwise(Step::messages(["pie"]).end_hang()),
    )
    .await;
    let channel = Channel::new(&hedging(2, "0.01s"));
    let answer = channel.send(unary(&server)).await.expect("an answer");
    let cancelled = within(server.wait_cancelled(1)).await;
    assert_eq!(
        (cancelled[0].number, codes(&cancelled)),
        (0, vec![Some(ErrorCode::CANCEL)])
    );
    assert_eq!(server.seen_count(), 2);
    drop(answer);
}

/// R42
#[tokio::test]
async fn a_fatal_answer_ends_the_call_and_cancels_the_others() {
    let server = start(
        Script::new()
            .then(Step::hang())
            .otherwise(Step::trailers_only(INVALID_ARGUMENT, "no")),
    )
    .await;
    let channel = Channel::new(&hedging(2, "0.01s"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::InvalidArgument);
    let cancelled = within(server.wait_cancelled(1)).await;
    assert_eq!((cancelled[0].number, server.seen_count()), (0, 2));
}

/// R43: the delay of an hour is not waited out.
#[tokio::test]
async fn a_failure_that_is_not_fatal_sends_the_next_at_once() {
    let server = start(Script::new().then(busy()).otherwise(Step::ok("pie"))).await;
    let channel = Channel::new(&hedging(3, "3600s"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!((ended.code, server.seen_count()), (Code::Ok, 2));
}

/// R44
#[tokio::test]
async fn pushback_says_when_the_next_hedge_goes_out() {
    let server = start(
        Script::new()
            .then(busy().pushback("150"))
            .otherwise(Step::ok("pie")),
    )
    .await;
    Channel::new(&hedging(3, "3600s"))
        .call(unary(&server))
        .await;
    let seen = server.seen();
    assert!(seen[1].arrival - seen[0].arrival >= Duration::from_millis(150));
}

/// R45
#[tokio::test]
async fn a_stop_ends_new_hedges_and_those_in_flight_go_on() {
    let server = start(
        Script::new()
            .then(Step::ok("pie").after(Duration::from_millis(1500)))
            .then(busy().pushback("-1"))
            .otherwise(Step::trailers_only(INVALID_ARGUMENT, "not expected")),
    )
    .await;
    let channel = Channel::new(&hedging(5, "0.5s"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!((ended.code, server.seen_count()), (Code::Ok, 2));
}

/// R47
#[tokio::test]
async fn when_all_fail_the_last_failure_is_returned() {
    let server = start(
        Script::new()
            .then_times(2, busy())
            .otherwise(Step::trailers_only(UNAVAILABLE, "third and last")),
    )
    .await;
    let channel = Channel::new(&hedging(3, "3600s"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.head["grpc-message"], "third and last");
    assert_eq!((ended.code, server.seen_count()), (Code::Unavailable, 3));
}

/// R48
#[tokio::test]
async fn the_deadline_cancels_every_hedge() {
    let server = start(Step::hang()).await;
    let policy = r#""timeout":"0.3s","hedgingPolicy":{"maxAttempts":3,"nonFatalStatusCodes":["UNAVAILABLE"]}"#;
    let channel = Channel::new(&config(policy));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    let cancelled = within(server.wait_cancelled(server.seen_count())).await;
    assert!(
        codes(&cancelled)
            .iter()
            .all(|code| *code == Some(ErrorCode::CANCEL))
    );
}

/// R40, R48: without a delay all are sent at once; dropping the call cancels every attempt.
#[tokio::test]
async fn a_caller_who_leaves_cancels_every_attempt() {
    let server = start(Step::hang()).await;
    let channel = Channel::new(&hedging(3, "0s"));
    tokio::select! {
        _ = channel.send(unary(&server)) => panic!("nothing answers"),
        _ = server.wait_for(3, |call| call.half_closed) => {}
    }
    let cancelled = within(server.wait_cancelled(3)).await;
    assert_eq!(codes(&cancelled), [Some(ErrorCode::CANCEL); 3]);
}
