//! `grpc-retry-pushback-ms` with a `retryPolicy`.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, each, ms};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

/// The answer of a call to a server that pushes back once, then succeeds.
async fn after(server: &Server, step: Step) -> Value {
    server.forget();
    server.set_script(Script::new().then(step).otherwise(Step::ok("world")));
    answer(configured(server, retrying(3), json!({}))).await
}

/// R30, row by row: anything but a 32-bit integer without leading zeros is a stop.
#[tokio::test]
async fn what_is_no_delay_is_a_stop() {
    let server = Server::start(Script::new()).await.unwrap();
    for value in [
        "-1",
        "-2147483648",
        "-0",
        "xxx",
        "",
        "10abc",
        "1.5",
        "0x10",
        "1e2",
        "007",
        "00",
        "+5",
        " 10",
        "10 ",
        "2147483648",
        "9300000000000",
        "99999999999999999999999",
    ] {
        let answer = after(&server, unavailable().pushback(value)).await;
        assert_eq!(answer["code"], 14, "{value:?}: {answer}");
        assert_eq!(answer["stopped"], "pushback");
        assert_eq!(each(&answer, "pushback_ms"), ["stop"]);
        assert_eq!(each(&answer, "delay_ms"), [Value::Null]);
        assert_eq!(server.seen().len(), 1);
    }
}

/// R30 R31: exact, even above `maxBackoff`; zero means at once.
#[tokio::test]
async fn a_delay_is_waited_exactly() {
    let server = Server::start(Script::new()).await.unwrap();
    for delay in [0, 1, 10, 250] {
        let answer = after(&server, unavailable().pushback(delay.to_string())).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "pushback_ms"), [json!(delay), Value::Null]);
        assert_eq!(each(&answer, "delay_ms"), [json!(delay), Value::Null]);
        let (starts, ends) = (each(&answer, "start_ms"), each(&answer, "end_ms"));
        let waited = ms(&starts[1]) - ms(&ends[0]);
        let delay = f64::from(delay);
        assert!((delay - 0.1..delay + ROOM).contains(&waited), "{answer}");
    }
}

/// R30: the largest valid delay is a delay, not a stop.
#[tokio::test]
async fn the_longest_delay_waits_for_the_deadline() {
    let server = Server::start(unavailable().pushback("2147483647"))
        .await
        .unwrap();
    let document = configured(&server, retrying(3), json!({"timeout_ms": 150}));
    let answer = answer(document).await;
    assert_eq!(answer["code"], 4, "{answer}");
    assert_eq!(each(&answer, "pushback_ms"), [2_147_483_647]);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn two_values_are_one_if_they_are_the_same_and_else_a_stop() {
    let server = Server::start(Script::new()).await.unwrap();
    let same = after(&server, unavailable().pushback("5").pushback("5")).await;
    assert_eq!(
        (&same["code"], &each(&same, "delay_ms")[0]),
        (&json!(0), &json!(5))
    );
    let different = after(&server, unavailable().pushback("5").pushback("6")).await;
    assert_eq!(different["stopped"], "pushback", "{different}");
    let listed = after(&server, unavailable().pushback("5,5")).await;
    assert_eq!(listed["stopped"], "pushback", "{listed}");
}

/// R34: a delay does not make a code retryable. R35: on OK it is ignored. R36: and after response
/// headers.
#[tokio::test]
async fn it_is_only_for_failures_that_may_be_retried() {
    let server = Server::start(Script::new()).await.unwrap();
    for (step, code, stopped) in [
        (Step::trailers_only(5, "").pushback("1"), 5, "fatal"),
        (Step::trailers_only(5, "").pushback("-1"), 5, "fatal"),
        (Step::headers_then_status(14).pushback("1"), 14, "committed"),
        (Step::ok("world").pushback("1"), 0, "success"),
        (Step::ok("world").pushback("-1"), 0, "success"),
    ] {
        let answer = after(&server, step).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(answer["stopped"], stopped, "{answer}");
        assert_eq!(server.seen().len(), 1);
    }
    // OK in a Trailers-Only answer, of a method that may return no message.
    server.forget();
    server.set_script(Step::trailers_only(0, "").pushback("1"));
    let document = configured(&server, retrying(3), json!({"kind": "server_stream"}));
    assert_eq!(answer(document).await["code"], 0);
    assert_eq!(server.seen().len(), 1);
}

/// R33
#[tokio::test]
async fn it_makes_no_attempt_beyond_the_maximum() {
    let server = Server::start(unavailable().pushback("1")).await.unwrap();
    let answer = answer(configured(&server, retrying(3), json!({}))).await;
    assert_eq!(answer["stopped"], "attempts");
    assert_eq!(each(&answer, "pushback_ms"), [1, 1, 1]);
    assert_eq!(server.seen_count(), 3);
}

/// R32: afterwards the back-off restarts from `initialBackoff`.
#[tokio::test]
async fn the_back_off_starts_anew_after_it() {
    let script = Script::new()
        .then_times(2, unavailable())
        .then(unavailable().pushback("1"))
        .otherwise(unavailable());
    let server = Server::start(script).await.unwrap();
    let mut config = retrying(5);
    let policy = &mut config["methodConfig"][0]["retryPolicy"];
    policy["initialBackoff"] = "0.001s".into();
    policy["maxBackoff"] = "1s".into();
    policy["backoffMultiplier"] = json!(10);
    let answer = answer(configured(&server, config, json!({}))).await;
    let delays: Vec<_> = each(&answer, "delay_ms")[..4].iter().map(ms).collect();
    assert!(delays[0] < 1.0 && delays[1] < 10.0, "{delays:?}");
    assert!((delays[2] - 1.0).abs() < f64::EPSILON, "{delays:?}");
    assert!(delays[3] < 1.0, "{delays:?}");
}
