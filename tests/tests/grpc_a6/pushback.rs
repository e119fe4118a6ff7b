//! The server's own delay (R30 to R36).

use super::*;
use reattempt::StopReason;

/// R30, R31: pushback replaces a longer and a shorter back-off.
#[tokio::test]
async fn the_servers_delay_is_waited_in_place_of_the_backoff() {
    let script = |ms| {
        Script::new()
            .then(busy().pushback(ms))
            .otherwise(Step::ok("pie"))
    };
    let server = start(script("5")).await;
    let ended = Channel::new(&retrying(4, "3600s"))
        .call(unary(&server))
        .await;
    assert_eq!((ended.code, server.seen_count()), (Code::Ok, 2));

    let server = start(script("150")).await;
    Channel::new(&retrying(4, "0.001s"))
        .call(unary(&server))
        .await;
    let seen = server.seen();
    assert!(seen[1].arrival - seen[0].arrival >= Duration::from_millis(150));
}

/// R11, R31: no jitter, no cap; R32: afterwards the back-off starts again.
#[tokio::test]
async fn the_backoff_starts_anew_after_a_pushback() {
    let server = start(
        Script::new()
            .then(busy())
            .then(busy().pushback("30"))
            .then(busy())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let policy = r#""retryPolicy":{"maxAttempts":5,"initialBackoff":"0.004s","maxBackoff":"1s",
        "backoffMultiplier":4,"retryableStatusCodes":["UNAVAILABLE"]}"#;
    let ended = Channel::new(&config(policy)).call(unary(&server)).await;
    let delays: Vec<_> = ended
        .info
        .records()
        .filter_map(|record| record.delay)
        .collect();
    let ms = Duration::from_millis;
    assert_eq!(
        delays,
        [ms(2), ms(30), ms(2)],
        "half of the bound; exactly; half of the first bound"
    );
    assert_eq!(server.seen_count(), 4);
}

/// R30: a negative value, and anything that is not a plain 32-bit number.
#[tokio::test]
async fn a_stop_and_junk_end_the_call_with_the_servers_failure() {
    for value in [
        "-1",
        "-2147483648",
        "",
        "xxx",
        "10abc",
        "1.5",
        "0x10",
        "007",
        "+5",
        "2147483648",
    ] {
        let server = start(
            Script::new()
                .then(busy().pushback(value))
                .otherwise(Step::ok("not expected")),
        )
        .await;
        let ended = Channel::new(&retrying(4, "0.001s"))
            .call(unary(&server))
            .await;
        assert_eq!(ended.code, Code::Unavailable, "{value:?}");
        assert_eq!(
            ended.info.stopped(),
            Some(StopReason::Pushback),
            "{value:?}"
        );
        assert_eq!(server.seen_count(), 1, "{value:?}");
    }
}

/// R30: the key twice with different values is contradictory.
#[tokio::test]
async fn two_different_values_are_a_stop() {
    let server = start(busy().pushback("1").pushback("2")).await;
    let ended = Channel::new(&retrying(4, "0.001s"))
        .call(unary(&server))
        .await;
    assert_eq!((ended.code, server.seen_count()), (Code::Unavailable, 1));
}

/// R33
#[tokio::test]
async fn pushback_makes_no_attempt_beyond_the_maximum() {
    let server = start(busy().pushback("0")).await;
    let ended = Channel::new(&retrying(3, "0.001s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
    assert_eq!(server.seen_count(), 3);
}

/// R34, R35, R36
#[tokio::test]
async fn pushback_on_ok_a_final_code_or_after_headers_is_ignored() {
    for (step, code) in [
        (
            Step::trailers_only(INVALID_ARGUMENT, "").pushback("0"),
            Code::InvalidArgument,
        ),
        (Step::trailers_only(0, "").pushback("0"), Code::Ok),
        (Step::ok("pie").pushback("0"), Code::Ok),
        (
            Step::headers_then_status(UNAVAILABLE).pushback("0"),
            Code::Unavailable,
        ),
    ] {
        let server = start(step).await;
        let ended = Channel::new(&retrying(3, "0.001s"))
            .call(unary(&server))
            .await;
        assert_eq!((ended.code, server.seen_count()), (code, 1));
    }
}
