//! The policy decides: routes by method, path, host; retry, hedge, limits.

use std::time::Duration;

use reattempt_testbed::http::{Script, Server, Step};
use serde_json::{Value, json};

use super::super::{answer, document, each, run, text, with};

/// A route per kind of recovery; the first that matches decides.
fn policy() -> Value {
    json!({
        "routes": [
            {"name": "hedged", "match": {"methods": ["GET"], "prefix": "/hedged/"},
             "hedge": {"maxAttempts": 3, "delay": "0.05s", "budgetPercent": 100}},
            {"name": "keyed", "match": {"methods": ["POST"], "pattern": "/orders/{id}"},
             "retry": {"maxAttempts": 4, "backoff": {"initial": "0.01s", "multiplier": 1, "max": "0.01s", "jitter": "none"}},
             "idempotencyKey": true, "throttle": "wide"},
            {"name": "slow", "match": {"path": "/slow"}, "timeout": "0.1s", "attemptTimeout": "0.04s", "throttle": "wide",
             "retry": {"maxAttempts": 9, "backoff": {"initial": "0.001s", "jitter": "none"}}},
        ],
        "default": {"timeout": "30s"},
        "throttles": {"wide": {"maxTokens": 1000, "tokenRatio": 1}},
    })
}

async fn by_policy(server: &Server, call: Value) -> Value {
    let document = document("http", &server.uri(), json!([call]));
    answer(with(document, "policy", policy())).await
}

#[tokio::test]
async fn routes_retry_and_an_idempotency_key_makes_a_post_repeatable() {
    let server = Server::start(Step::status(503)).await.unwrap();
    let order = json!({"method": "POST", "path": "/orders/7"});
    assert_eq!(
        by_policy(&server, order.clone()).await["stopped"],
        "not_idempotent"
    );
    let mut keyed = order;
    keyed["headers"] = json!({"Idempotency-Key": "a"});
    let answer = by_policy(&server, keyed).await;
    assert_eq!(
        each(&answer, "delay_ms"),
        [json!(10), json!(10), json!(10), Value::Null]
    );
    assert_eq!(answer["stopped"], "attempts");
    let other = by_policy(&server, json!({"path": "/other"})).await;
    assert_eq!(
        each(&other, "n").len(),
        1,
        "the default recovers nothing: {other}"
    );
}

/// A watch stays open on purpose, so only the list is retried.
#[tokio::test]
async fn a_query_parameter_picks_the_route() {
    let policy = json!({
        "routes": [
            {"name": "watch", "match": {"path": "/pods", "query": {"watch": "true"}}},
            {"name": "list", "match": {"path": "/pods"}, "retry": {"maxAttempts": 2, "backoff": {"initial": "0.001s"}}},
        ],
    });
    for (path, attempts) in [("/pods?limit=5&w%61tch=true", 1), ("/pods?watch=false", 2)] {
        let server = Server::start(Step::status(503)).await.unwrap();
        let document = document("http", &server.uri(), json!([{"path": path}]));
        let answer = answer(with(document, "policy", policy.clone())).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_policy_hedges_and_drops_the_loser() {
    let script = Script::new()
        .then(Step::hang())
        .otherwise(Step::status(200));
    let server = Server::start(script).await.unwrap();
    let answer = by_policy(&server, json!({"path": "/hedged/a"})).await;
    assert_eq!(answer["status"], 200, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "hedge"]);
    assert_eq!(each(&answer, "verdict"), ["cancelled", "success"]);
    server.wait_cancelled(1).await;
}

#[tokio::test]
async fn the_policy_limits_attempts_and_the_call() {
    let server = Server::start(Step::hang()).await.unwrap();
    let answer = by_policy(&server, json!({"path": "/slow"})).await;
    assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    assert_eq!(answer["stopped"], "deadline");
    let verdicts = each(&answer, "verdict");
    assert!(verdicts.len() >= 2, "{answer}");
    assert_eq!(verdicts[0], "retry");
    assert_eq!(answer["reasons"], json!(["HTTP_TIMEOUT"]));
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_makes_the_document_unusable() {
    let document = document("http", "127.0.0.1:1", json!([{}]));
    let document = with(document, "policy", json!({"routes": [{"timeout": "5m"}]}));
    let output = run(&["call", "--json"], document.to_string()).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("reattempt call: $.policy.routes[0].timeout: "),
        "{said}"
    );
}

/// A non-idempotent request is in flight once at a time, unless the policy, its key or its caller
/// allows more.
#[tokio::test]
async fn only_idempotent_requests_are_hedged_unless_the_policy_allows() {
    let slow = Step::status(200).after(Duration::from_millis(150));
    let hedge = |only: Value| json!({"delay": "0.03s", "maxAttempts": 2, "budgetPercent": 100, "onlyIdempotent": only});
    let key = json!({"idempotency-key": "a"});
    for (only, call, attempts) in [
        (Value::Null, json!({"method": "GET"}), 2),
        (Value::Null, json!({"method": "POST"}), 1),
        (
            json!(true),
            json!({"method": "GET", "idempotent": false}),
            1,
        ),
        (
            Value::Null,
            json!({"method": "POST", "idempotent": true}),
            2,
        ),
        (Value::Null, json!({"method": "POST", "headers": key}), 2),
    ] {
        let server = Server::start(slow.clone()).await.unwrap();
        let policy = json!({"default": {"hedge": hedge(only), "idempotencyKey": true}});
        let document = document("http", &server.uri(), json!([call]));
        let answer = answer(with(document, "policy", policy)).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{call}: {answer}");
        assert_eq!(server.seen_count(), attempts);
    }
    // A request that was not processed may be followed by another.
    let script = Script::new().then(Step::status(429));
    let server = Server::start(script.otherwise(Step::status(200)))
        .await
        .unwrap();
    let policy = json!({"default": {"hedge": hedge(Value::Null)}});
    let document = document("http", &server.uri(), json!([{"method": "POST"}]));
    let answer = answer(with(document, "policy", policy)).await;
    assert_eq!(each(&answer, "verdict"), ["retry", "success"], "{answer}");
}

/// The host is the one that the request names, on both HTTP versions.
#[tokio::test]
async fn a_route_matches_the_host_that_the_request_names() {
    let policy = json!({
        "routes": [{"match": {"host": "a.example"}, "retry": {"backoff": {"initial": "0.001s"}}}],
        "default": {},
    });
    for version in [1, 2] {
        let server = Server::start(Step::status(503)).await.unwrap();
        let calls = json!([{"headers": {"host": "A.example:81"}}, {}]);
        let document = with(
            document("http", &server.uri(), calls),
            "version",
            json!(version),
        );
        let answers = super::super::answers(with(document, "policy", policy.clone())).await;
        let attempts: Vec<_> = answers.iter().map(|a| each(a, "n").len()).collect();
        assert_eq!(attempts, [3, 1], "{version}");
        if version == 1 {
            assert_eq!(server.seen()[0].header("host"), Some("A.example:81"));
        }
    }
}

#[tokio::test]
async fn a_multiplier_that_no_float_holds_is_a_fault_at_its_path() {
    let policy = r#"{"default": {"retry": {"maxAttempts": 2, "backoff": {"initial": "0.1s", "multiplier": 1e400}}}}"#;
    let document = r#"{"protocol": "http", "target": "h:1", "calls": [], "policy": POLICY}"#;
    let output = run(&["call", "--json"], document.replace("POLICY", policy)).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let place = "$.policy.default.retry.backoff.multiplier: must be a number";
    assert!(said.contains(place), "{said}");
}
