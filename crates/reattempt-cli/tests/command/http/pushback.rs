//! Server pushback: Retry-After and rate-limit headers.

use reattempt_testbed::http::{Script, Server, Step};
use serde_json::{Value, json};

use super::super::{answer, document, each, ms, with};

/// Two attempts 10 ms apart, unless the server asks for a longer delay.
async fn told(first: Step, retry_after: Value) -> Value {
    let script = Script::new().then(first);
    let server = Server::start(script.otherwise(Step::status(200)))
        .await
        .unwrap();
    let retry = json!({"maxAttempts": 2, "backoff": {"initial": "0.01s", "jitter": "none"}});
    let policy = json!({"default": {"retry": retry, "retryAfter": retry_after}});
    let document = document("http", &server.uri(), json!([{"timeout_ms": 30_000}]));
    answer(with(document, "policy", policy)).await
}

fn waited(answer: &Value) -> f64 {
    ms(&answer["attempts"][1]["start_ms"]) - ms(&answer["attempts"][0]["end_ms"])
}

#[tokio::test]
async fn seconds_milliseconds_and_a_date_are_waited_for() {
    let answer = told(Step::status(503).header("retry-after", "1"), json!({})).await;
    assert_eq!(answer["attempts"][0]["pushback_ms"], 1000);
    assert_eq!(answer["attempts"][0]["delay_ms"], 1000);
    assert!(waited(&answer) >= 999.0, "{answer}");
    let fine = Step::status(503)
        .header("retry-after", "9")
        .header("retry-after-ms", "70");
    let answer = told(fine, json!({})).await;
    assert!(waited(&answer) >= 69.0, "{answer}");
    assert_eq!(answer["attempts"][0]["pushback_ms"], 70);
    let past = Step::status(429).header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
    let answer = told(past, json!({})).await;
    assert_eq!(answer["attempts"][0]["pushback_ms"], 0, "now");
    assert_eq!(answer["attempts"][0]["delay_ms"], 0);
}

#[tokio::test]
async fn junk_counts_as_absent() {
    for junk in [
        "",
        "-1",
        "1.5",
        "soon",
        "1 s",
        "0x10",
        "1, 2",
        "Sun, 06 Nov",
    ] {
        for name in ["retry-after", "retry-after-ms"] {
            let answer = told(Step::status(503).header(name, junk), json!({})).await;
            assert_eq!(answer["status"], 200, "{answer}");
            let said = each(&answer, "pushback_ms");
            assert_eq!(said, [Value::Null, Value::Null], "{name}: {junk:?}");
            assert_eq!(answer["attempts"][0]["delay_ms"], 10, "{name}: {junk:?}");
        }
    }
}

#[tokio::test]
async fn a_cap_waits_or_stops() {
    let busy = || Step::status(503).header("retry-after", "60");
    let wait = json!({"cap": "0.05s", "beyondCap": "wait"});
    let answer = told(busy(), wait).await;
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["attempts"][0]["pushback_ms"], 50);
    let answer = told(busy(), json!({"cap": "0.05s"})).await;
    assert_eq!(answer["status"], 503);
    assert_eq!(answer["stopped"], "pushback");
    assert_eq!(each(&answer, "pushback_ms"), ["stop"]);
}

#[tokio::test]
async fn too_large_a_number_saturates() {
    let endless = || Step::status(503).header("retry-after", "99999999999999999999999");
    let script = Script::new().then(endless());
    let server = Server::start(script).await.unwrap();
    // Without a deadline such a delay is not awaited.
    let without = answer(document("http", &server.uri(), json!([{}]))).await;
    assert_eq!(without["stopped"], "pushback", "{without}");
    let wait = told(endless(), json!({"cap": "0.02s", "beyondCap": "wait"})).await;
    assert_eq!(wait["attempts"][0]["delay_ms"], 20);
}

#[tokio::test]
async fn it_is_no_reason_to_send_again() {
    let fatal = Step::status(404).header("retry-after", "0");
    assert_eq!(told(fatal, json!({})).await["stopped"], "fatal");
    let deaf = Step::status(503).header("retry-after", "60");
    let answer = told(deaf, json!({"honour": false})).await;
    assert_eq!(answer["attempts"][0]["delay_ms"], 10);
}

#[tokio::test]
async fn the_reset_of_an_exhausted_rate_limit_is_awaited() {
    for name in ["ratelimit-reset", "x-ratelimit-reset"] {
        let answer = told(Step::status(429).header(name, "1"), json!({})).await;
        assert_eq!(answer["attempts"][0]["pushback_ms"], 1000, "{name}");
        assert!(waited(&answer) >= 999.0, "{answer}");
        let off = told(
            Step::status(429).header(name, "1"),
            json!({"rateLimits": false}),
        );
        assert_eq!(off.await["attempts"][0]["delay_ms"], 10);
    }
    let with_room = Step::status(503)
        .header("x-ratelimit-reset", "3000")
        .header("x-ratelimit-remaining", "4999");
    let answer = told(with_room, json!({})).await;
    assert_eq!(answer["attempts"][0]["delay_ms"], 10, "{answer}");
}

#[tokio::test]
async fn clients_given_one_instant_are_spread_repeatably_by_a_seed() {
    let busy = Step::status(503).header("retry-after-ms", "5");
    let script = || Script::new().then_times(8, busy.clone());
    let policy = json!({"default": {
        "retry": {"maxAttempts": 2}, "retryAfter": {"spread": "0.1s"},
    }});
    let mut rounds = Vec::new();
    for seed in [3, 3, 4] {
        let server = Server::start(script()).await.unwrap();
        let calls = json!([{}, {}, {}, {}]);
        let document = with(document("http", &server.uri(), calls), "seed", json!(seed));
        let answers = super::super::answers(with(document, "policy", policy.clone())).await;
        let delays: Vec<_> = answers
            .iter()
            .map(|answer| ms(&answer["attempts"][0]["delay_ms"]))
            .collect();
        assert!(
            delays.iter().all(|d| (5.0..105.0).contains(d)),
            "{delays:?}"
        );
        assert!(
            answers
                .iter()
                .all(|answer| { waited(answer) >= ms(&answer["attempts"][0]["delay_ms"]) - 1.0 })
        );
        assert!(delays[1..].iter().any(|delay| *delay != delays[0]));
        rounds.push(delays);
    }
    assert_eq!(rounds[0], rounds[1]);
    assert_ne!(rounds[0], rounds[2]);
}
