//! One deadline over all attempts (R14, R48, R80).

use super::*;
use reattempt::StopReason;
use reattempt_testbed::grpc::ErrorCode;

/// R14, R80: the config's timeout ends the call, and the server receives it.
#[tokio::test]
async fn the_deadline_ends_the_call_as_deadline_exceeded() {
    let server = start(Step::hang()).await;
    let channel = Channel::new(&config(r#""timeout":"0.1s""#));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    let cancelled = within(server.wait_cancelled(1)).await;
    let code = cancelled[0].cancelled.and_then(|cancelled| cancelled.code);
    assert_eq!(code, Some(ErrorCode::CANCEL));
}

/// R14: the back-off ends at the deadline, and nothing more is sent.
#[tokio::test]
async fn a_backoff_beyond_the_deadline_ends_at_the_deadline() {
    let server = start(busy()).await;
    let policy = format!(r#""timeout":"0.1s",{}"#, retry_policy(4, "3600s"));
    let channel = Channel::new(&config(&policy));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    assert_eq!(ended.info.stopped(), Some(StopReason::Deadline));
    assert_eq!(server.seen_count(), 1);
}

/// R14: the same deadline limits the stream.
#[tokio::test]
async fn a_stream_that_never_ends_is_ended_in_its_trailers() {
    let server = start(Step::messages(["pie"]).end_hang()).await;
    let channel = Channel::new(&config(r#""timeout":"0.2s""#));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    assert_eq!(ended.messages, ["pie"]);
    within(server.wait_cancelled(1)).await;
}

/// The time in `grpc-timeout`, in microseconds.
fn timeout(call: &SeenCall) -> u64 {
    let text = call.header("grpc-timeout").expect("a timeout");
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().expect("a number");
    match unit {
        "n" => number / 1_000,
        "u" => number,
        "m" => number * 1_000,
        "S" => number * 1_000_000,
        other => panic!("unit {other}"),
    }
}

/// R14, R80: each attempt carries the time left.
#[tokio::test]
async fn the_timeout_on_the_wire_shrinks_from_attempt_to_attempt() {
    let server = start(
        Script::new()
            .then_times(2, busy().pushback("40"))
            .otherwise(Step::ok("pie")),
    )
    .await;
    let policy = format!(r#""timeout":"20s",{}"#, retry_policy(4, "3600s"));
    let channel = Channel::new(&config(&policy));
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::Ok);
    let told: Vec<u64> = server.seen().iter().map(timeout).collect();
    assert!(told[0] <= 20_000_000, "{told:?}");
    assert!(told[1] + 40_000 <= told[0], "{told:?}");
    assert!(told[2] + 40_000 <= told[1], "{told:?}");
}

/// R80: the earlier of the caller's deadline and the config's applies.
#[tokio::test]
async fn the_earlier_of_both_deadlines_counts() {
    for (callers, configs) in [("100m", "3600s"), ("3600S", "0.1s")] {
        let server = start(Step::hang()).await;
        let request = begin(&server)
            .header("grpc-timeout", callers)
            .body(one_message())
            .expect("a request");
        let config = config(&format!(r#""timeout":"{configs}""#));
        let channel = Channel::new(&config);
        let ended = channel.call(request).await;
        assert_eq!(ended.code, Code::DeadlineExceeded);
        assert!(timeout(&server.seen()[0]) <= 100_000);
    }
}
