//! Time limits, and whether the request may have taken effect.

use reattempt_testbed::http::{Script, Server, Step};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::super::{answer, answers, document, each, ms, with};

#[tokio::test]
async fn a_timeout_is_ambiguous_only_in_flight_and_if_not_idempotent() {
    let server = Server::start(Step::hang()).await.unwrap();
    let calls = [
        ("GET", Value::Null, "unambiguous"),
        ("PUT", Value::Null, "unambiguous"),
        ("DELETE", Value::Null, "unambiguous"),
        ("POST", Value::Null, "ambiguous"),
        ("PATCH", Value::Null, "ambiguous"),
        ("POST", json!(true), "unambiguous"),
        ("GET", json!(false), "ambiguous"),
    ];
    for version in [1, 2] {
        let said: Vec<_> = calls
            .iter()
            .map(|(method, idempotent, _)| {
                json!({"method": method, "idempotent": idempotent, "timeout_ms": 60})
            })
            .collect();
        let document = document("http", &server.uri(), said.into());
        let answers = answers(with(document, "version", json!(version))).await;
        for (answer, (method, _, word)) in answers.iter().zip(&calls) {
            assert_eq!(answer["timeout"], *word, "{method}: {answer}");
            assert_eq!(each(answer, "stage"), ["in_flight"]);
        }
    }
}

#[tokio::test]
async fn no_time_at_all_sends_nothing() {
    let server = Server::start(Step::status(200)).await.unwrap();
    let calls = json!([{"method": "POST", "timeout_ms": 0}]);
    let answer = answer(document("http", &server.uri(), calls)).await;
    assert_eq!(answer["timeout"], "unambiguous");
    assert_eq!(answer["stopped"], "deadline");
    assert_eq!(answer["attempts"], json!([]));
    assert_eq!(server.seen_count(), 0);
}

/// The connection is not accepted, so nothing was sent.
#[tokio::test]
async fn a_connect_that_hangs_is_unambiguous_for_any_request() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener: TcpListener = socket.listen(0).unwrap();
    let target = listener.local_addr().unwrap();
    // Fills the queue of pending connections.
    let _held = TcpStream::connect(target).await.unwrap();
    let calls = json!([{"method": "POST", "timeout_ms": 150}]);
    let answer = answer(document("http", &target.to_string(), calls)).await;
    assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    assert_eq!(each(&answer, "stage"), ["dispatch"]);
}

#[tokio::test]
async fn an_attempt_that_ran_out_of_its_time_is_retried_if_it_may_be() {
    let policy = json!({"default": {"attemptTimeout": "0.08s", "retry": {"backoff": {"initial": "0.001s", "jitter": "none"}}}});
    for (method, status, timeout) in [
        ("PUT", json!(200), Value::Null),
        ("POST", Value::Null, json!("ambiguous")),
    ] {
        let script = Script::new().then(Step::hang());
        let server = Server::start(script.otherwise(Step::status(200)))
            .await
            .unwrap();
        let document = document("http", &server.uri(), json!([{"method": method}]));
        let answer = answer(with(document, "policy", policy.clone())).await;
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["timeout"], timeout, "{answer}");
        assert_eq!(answer["attempts"][0]["reason"], "HTTP_TIMEOUT");
        assert!(ms(&answer["attempts"][0]["end_ms"]) >= 79.0);
    }
}

/// RFC 0049, Capping: the call waits until the deadline and sends nothing then, or the failure is
/// returned at once.
#[tokio::test]
async fn a_delay_beyond_the_deadline_is_capped_or_given_up() {
    let busy = Step::status(503).header("retry-after", "9");
    let server = Server::start(busy).await.unwrap();
    for (on_deadline, status, timeout) in [
        ("cap", Value::Null, json!("unambiguous")),
        ("give_up", json!(503), Value::Null),
    ] {
        let before = server.seen_count();
        let document = document("http", &server.uri(), json!([{"timeout_ms": 120}]));
        let answer = answer(with(document, "on_deadline", json!(on_deadline))).await;
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["timeout"], timeout, "{answer}");
        assert_eq!(answer["stopped"], "deadline", "{answer}");
        assert_eq!(server.seen_count() - before, 1);
        assert_eq!(ms(&answer["elapsed_ms"]) >= 119.0, on_deadline == "cap");
    }
}

/// However large the body is.
#[tokio::test]
async fn a_large_body_does_not_put_off_the_deadline() {
    let takes_nothing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = takes_nothing.local_addr().unwrap().to_string();
    let body = "A".repeat(32 << 20);
    let calls = json!([{"method": "PUT", "body": body, "timeout_ms": 200}]);
    for version in [1, 2] {
        let document = document("http", &target, calls.clone());
        let answer = answer(with(document, "version", json!(version))).await;
        assert_eq!(answer["stopped"], "deadline", "{answer}");
        let elapsed = ms(&answer["elapsed_ms"]);
        assert!((199.0..2_000.0).contains(&elapsed), "{elapsed}");
    }
}
