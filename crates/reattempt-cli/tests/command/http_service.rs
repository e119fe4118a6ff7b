//! `reattempt call` to the Couchbase services over HTTP.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reattempt_testbed::http::{Script, Server, Step};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{answer, assert_times, document, each, ms, run, text, with};

const ROWS: &str = r#"{"results": [{"n": 1}], "status": "success"}"#;

fn works() -> Step {
    Step::status(200).body(ROWS)
}

/// An answer of the query or the analytics service with this error.
fn fails(status: u16, code: i64, message: &str) -> Step {
    let errors = json!([{"code": code, "msg": message}, {"code": 1, "msg": "another"}]);
    let body = json!({"requestID": "7", "results": [], "errors": errors, "status": "fatal"});
    Step::status(status).body(body.to_string())
}

/// A document to this service with one call.
fn to(server: &Server, service: &str, call: Value) -> Value {
    let mut whole = json!({"method": "POST", "path": "/service"});
    for (name, value) in call.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let document = document("http", &server.uri(), json!([whole]));
    with(document, "service", json!(service))
}

async fn call(server: &Server, service: &str, call: Value) -> Value {
    answer(to(server, service, call)).await
}

async fn start(script: impl Into<Script>) -> Server {
    Server::start(script).await.unwrap()
}

fn body(answer: &Value) -> String {
    let body = STANDARD.decode(answer["body"].as_str().unwrap()).unwrap();
    String::from_utf8(body).unwrap()
}

/// C41 C3 C4
#[tokio::test]
async fn an_error_of_the_list_is_sent_again_and_every_attempt_is_told() {
    for status in [200, 404] {
        let gone = fails(status, 4040, "no such prepared statement");
        let server = start(Script::new().then_times(2, gone).otherwise(works())).await;
        let answer = call(&server, "query", json!({"call": "q"})).await;
        assert_eq!(
            (&answer["call"], &answer["status"]),
            (&json!("q"), &json!(200))
        );
        assert_eq!(body(&answer), ROWS);
        assert_eq!(
            (&answer["code"], &answer["error_message"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            answer["reasons"],
            json!(["QUERY_PREPARED_STATEMENT_FAILURE"])
        );
        assert_eq!(each(&answer, "verdict"), ["retry", "retry", "success"]);
        assert_eq!(each(&answer, "stage"), ["response", "response", "response"]);
        assert_eq!(each(&answer, "delay_ms"), [json!(1), json!(2), Value::Null]);
        assert_eq!(answer["stopped"], "success");
        assert_times(&answer);
        assert_eq!(server.seen_count(), 3);
    }
}

/// C41
#[tokio::test]
async fn the_error_that_decided_is_told() {
    let server = start(fails(200, 3000, "syntax error - at \"x\"")).await;
    let answer = call(&server, "query", json!({"readonly": true})).await;
    assert_eq!(
        (&answer["status"], &answer["code"]),
        (&json!(200), &json!(3000))
    );
    assert_eq!(answer["error_message"], "syntax error - at \"x\"");
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(each(&answer, "verdict"), ["fatal"]);
    assert_eq!(answer["reasons"], json!([]));
    assert_eq!(answer["error"], Value::Null);

    let document = with(
        to(&server, "query", json!({})),
        "strategy",
        json!("fail_fast"),
    );
    server.set_script(fails(400, 4050, "gone"));
    let answer = super::answer(document).await;
    assert_eq!(
        (&answer["code"], &answer["stopped"]),
        (&json!(4050), &json!("attempts"))
    );
    assert_eq!(each(&answer, "verdict"), ["retry"]);
}

/// C41 C43
#[tokio::test]
async fn the_later_codes_are_an_option() {
    let retry = json!({"errors": [{"code": 17013, "msg": "m", "retry": true}]});
    for (step, reason) in [
        (fails(400, 4080, "m"), "QUERY_PREPARED_STATEMENT_FAILURE"),
        (
            Step::status(500).body(retry.to_string()),
            "SERVICE_RESPONSE_CODE_INDICATED",
        ),
    ] {
        let server = start(Script::new().then(step.clone()).otherwise(works())).await;
        let document = to(&server, "query", json!({}));
        let current = with(document.clone(), "current_server_codes", json!(true));
        assert_eq!(answer(current).await["reasons"], json!([reason]));
        server.set_script(Script::new().then(step).otherwise(works()));
        assert_eq!(answer(document).await["stopped"], "fatal");
    }
}

/// C44 C45 C46
#[tokio::test]
async fn every_service_has_its_own_list() {
    let missing = r#"{"error":"not_found","reason":"missing"}"#;
    for (service, step, reason) in [
        (
            "analytics",
            fails(500, 23007, "m"),
            "ANALYTICS_TEMPORARY_FAILURE",
        ),
        (
            "search",
            Step::status(429).body("num_queries_per_min"),
            "SEARCH_TOO_MANY_REQUESTS",
        ),
        ("views", Step::status(302), "VIEWS_NO_ACTIVE_PARTITION"),
        ("views", Step::status(503), "VIEWS_TEMPORARY_FAILURE"),
        (
            "views",
            Step::status(404).body(missing),
            "VIEWS_TEMPORARY_FAILURE",
        ),
        (
            "views",
            Step::status(500).body("x"),
            "VIEWS_TEMPORARY_FAILURE",
        ),
    ] {
        let server = start(Script::new().then(step.clone()).otherwise(works())).await;
        let answer = call(&server, service, json!({})).await;
        assert_eq!(answer["reasons"], json!([reason]), "{service}");
        assert_eq!(answer["status"], 200);
        for other in ["query", "management"] {
            server.set_script(Script::new().then(step.clone()).otherwise(works()));
            let answer = call(&server, other, json!({"readonly": true, "method": "GET"})).await;
            assert_eq!(answer["stopped"], "fatal", "{step:?} of {other}");
        }
    }
}

#[tokio::test]
async fn services_without_codes_tell_their_text() {
    let server = start(Step::status(200)).await;
    for (service, status, said, message) in [
        (
            "search",
            400,
            r#"{"error":"bad query","status":"fail"}"#,
            "bad query",
        ),
        (
            "views",
            404,
            r#"{"error":"not_found","reason":"deleted"}"#,
            "not_found: deleted",
        ),
        ("management", 404, "Object Not Found", "Object Not Found"),
    ] {
        server.set_script(Step::status(status).body(said));
        let answer = call(&server, service, json!({"method": "GET"})).await;
        assert_eq!(
            (&answer["code"], &answer["status"]),
            (&Value::Null, &json!(status))
        );
        assert_eq!(answer["error_message"], message);
        assert_eq!(body(&answer), said);
        assert_eq!(answer["stopped"], "fatal");
    }
}

/// C12 C32
#[tokio::test]
async fn a_lost_answer_is_asked_for_again_by_what_the_service_allows() {
    for (service, said, sent) in [
        ("query", json!({}), 1),
        ("query", json!({"readonly": true}), 2),
        ("query", json!({"readonly": false, "idempotent": true}), 2),
        ("analytics", json!({"method": "GET"}), 1),
        ("analytics", json!({"readonly": true}), 2),
        ("search", json!({}), 2),
        ("search", json!({"idempotent": false}), 1),
        ("views", json!({}), 2),
        ("management", json!({}), 1),
        ("management", json!({"method": "PUT"}), 1),
        ("management", json!({"method": "GET"}), 2),
    ] {
        let server = start(Script::new().then(Step::close_before()).otherwise(works())).await;
        let answer = call(&server, service, said.clone()).await;
        assert_eq!(server.seen_count(), sent, "{service} {said}");
        assert_eq!(answer["reasons"], json!(["SOCKET_CLOSED_WHILE_IN_FLIGHT"]));
        assert_eq!(answer["attempts"][0]["stage"], "in_flight");
        let stopped = if sent == 2 {
            "success"
        } else {
            "not_idempotent"
        };
        assert_eq!(answer["stopped"], stopped, "{service} {said}");
    }
}

/// C12
#[tokio::test]
async fn a_body_that_breaks_off_is_a_socket_that_was_closed() {
    let broken = || {
        let Value::String(whole) =
            json!(r#"{"results": [], "errors": [{"code": 4040, "msg": "m"}]}"#)
        else {
            panic!()
        };
        Step::close_during_body(42).with_status(400).body(whole)
    };
    let server = start(Script::new().then(broken()).otherwise(works())).await;
    let answer = call(&server, "query", json!({"readonly": true})).await;
    assert_eq!(
        (body(&answer), &answer["stopped"]),
        (ROWS.to_owned(), &json!("success"))
    );
    assert_eq!(answer["reasons"], json!(["SOCKET_CLOSED_WHILE_IN_FLIGHT"]));
    assert_eq!(each(&answer, "stage"), ["in_flight", "response"]);

    server.set_script(broken());
    let answer = call(&server, "query", json!({})).await;
    assert_eq!(
        (&answer["stopped"], &answer["code"]),
        (&json!("not_idempotent"), &Value::Null)
    );
    assert_eq!(each(&answer, "stage"), ["in_flight"]);
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with("the answer's body broke off"), "{error}");
    assert_eq!(body(&answer).len(), 42);
}

/// "A body of any size is read up to a bound, then judged by what was read."
#[tokio::test]
async fn answers_of_any_size_come_whole() {
    let rows = format!(r#"{{"results": [{}0]}}"#, "1234567, ".repeat(500_000));
    let server = start(Step::status(200).body(rows.clone())).await;
    let answer = call(&server, "query", json!({})).await;
    assert!(body(&answer) == rows);
    assert_eq!(
        (&answer["stopped"], &answer["code"]),
        (&json!("success"), &Value::Null)
    );
    assert_eq!(each(&answer, "verdict"), ["success"]);

    let far = format!(
        r#"{{"x": "{}", "errors": [{{"code": 4040}}]}}"#,
        "x".repeat(1 << 20)
    );
    server.set_script(Step::status(500).body(far.clone()));
    let answer = call(&server, "query", json!({"readonly": true})).await;
    assert!(body(&answer) == far);
    assert_eq!(
        (&answer["stopped"], &answer["code"]),
        (&json!("fatal"), &json!(4040))
    );
    assert_eq!(each(&answer, "n").len(), 1);
}

/// A success up to the bound, and then none: the answer had begun.
#[tokio::test]
async fn an_error_behind_many_rows_is_told_and_not_mended() {
    let late = format!(
        r#"{{"results": [{}0], "errors": [{{"code": 23000, "msg": "late"}}]}}"#,
        "1234567, ".repeat(10_000)
    );
    let server = start(Step::status(200).body(late)).await;
    let answer = call(&server, "analytics", json!({"readonly": true})).await;
    assert_eq!(
        (&answer["code"], &answer["error_message"]),
        (&json!(23000), &json!("late"))
    );
    assert_eq!(
        (&answer["stopped"], each(&answer, "verdict")),
        (&json!("committed"), vec![json!("fatal")])
    );
    assert_eq!(
        answer["attempts"][0]["reason"],
        "ANALYTICS_TEMPORARY_FAILURE"
    );
    assert_eq!(server.seen_count(), 1);
}

/// C41: in pieces, and after a pause.
#[tokio::test]
async fn an_error_that_comes_in_pieces_is_read() {
    for status in [200, 400] {
        let gone = || fails(status, 4050, "gone");
        let script = Script::new()
            .then(gone().in_pieces(1, Duration::from_millis(1)))
            .then(gone().body_after(Duration::from_millis(50)))
            .otherwise(works());
        let server = start(script).await;
        let answer = call(&server, "query", json!({})).await;
        assert_eq!(
            (body(&answer), each(&answer, "n").len()),
            (ROWS.to_owned(), 3)
        );
        let first = &answer["attempts"][1];
        assert!(
            ms(&first["end_ms"]) - ms(&first["start_ms"]) >= 50.0,
            "it ends with its error"
        );
    }
}

/// C5 C6 C7
#[tokio::test]
async fn views_without_an_active_partition_are_asked_until_the_deadline() {
    let server = start(Step::status(302).header("location", "/elsewhere")).await;
    let document = to(&server, "views", json!({"timeout_ms": 300}));
    let answer = answer(with(document, "strategy", json!("fail_fast"))).await;
    assert_eq!(
        (&answer["stopped"], &answer["timeout"]),
        (&json!("deadline"), &json!("unambiguous"))
    );
    let delays = each(&answer, "delay_ms");
    assert_eq!(delays[..4], [json!(1), json!(10), json!(50), json!(100)]);
    assert!(server.seen().iter().all(|seen| seen.path == "/service"));
    assert_eq!(answer["status"], Value::Null);
}

/// C7 C41
#[tokio::test]
async fn the_deadline_tells_what_failed_last() {
    let server = start(fails(404, 4040, "m")).await;
    let document = to(&server, "query", json!({"timeout_ms": 200}));
    let capped = answer(document.clone()).await;
    assert_eq!(
        (&capped["stopped"], &capped["code"]),
        (&json!("deadline"), &json!(4040))
    );
    assert_eq!(capped["timeout"], "unambiguous");
    let given_up = answer(with(document, "on_deadline", json!("give_up"))).await;
    assert_eq!(
        (&given_up["stopped"], &given_up["status"]),
        (&json!("deadline"), &json!(404))
    );
    assert_eq!(
        (&given_up["code"], &given_up["timeout"]),
        (&json!(4040), &Value::Null)
    );
    // The beginning of an answer, and nothing more.
    server.set_script(
        Step::hang_during_body(30)
            .with_status(500)
            .body(format!("{{{}", " ".repeat(99))),
    );
    let hung = call(&server, "query", json!({"timeout_ms": 150})).await;
    assert_eq!(
        (&hung["stopped"], &hung["timeout"]),
        (&json!("deadline"), &json!("ambiguous"))
    );
    assert_eq!(
        (&hung["code"], each(&hung, "verdict")),
        (&Value::Null, vec![json!("cancelled")])
    );
}

#[tokio::test]
async fn strategies_are_those_of_kv() {
    let server = start(fails(404, 4040, "m")).await;
    let with_strategy =
        |strategy: Value| with(to(&server, "query", json!({})), "strategy", strategy);
    let constant = answer(with_strategy(json!({"constant_ms": 7, "max_attempts": 3}))).await;
    assert_eq!(
        each(&constant, "delay_ms"),
        [json!(7), json!(7), Value::Null]
    );
    assert_eq!(constant["stopped"], "attempts");
    server.set_script(Script::new().then(fails(404, 4040, "m")).otherwise(works()));
    let error_map = answer(with_strategy(json!("error_map"))).await;
    assert_eq!(
        (&error_map["stopped"], each(&error_map, "n").len()),
        (&json!("success"), 2)
    );
}

/// C13
#[tokio::test]
async fn a_refused_connection_was_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    drop(listener);
    let document = document(
        "http",
        &target,
        json!([{"method": "POST", "timeout_ms": 250}]),
    );
    let answer = answer(with(document, "service", json!("query"))).await;
    assert_eq!(
        (&answer["stopped"], &answer["timeout"]),
        (&json!("deadline"), &json!("unambiguous"))
    );
    assert_eq!(answer["reasons"], json!(["SOCKET_NOT_AVAILABLE"]));
    assert!(
        each(&answer, "stage")
            .iter()
            .all(|stage| stage == "dispatch")
    );
    assert_eq!(
        (&answer["status"], &answer["code"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn http_2_carries_the_services_too() {
    let gone = fails(404, 4040, "m").in_pieces(10, Duration::ZERO);
    let server = start(
        Script::new()
            .then(gone)
            .then(Step::refuse_stream())
            .otherwise(works()),
    )
    .await;
    let answer = answer(with(to(&server, "query", json!({})), "version", json!(2))).await;
    assert_eq!(each(&answer, "kind"), ["initial", "retry", "transparent"]);
    assert_eq!(
        answer["reasons"],
        json!(["QUERY_PREPARED_STATEMENT_FAILURE", "SOCKET_NOT_AVAILABLE"])
    );
    assert_eq!(body(&answer), ROWS);
}

#[tokio::test]
async fn what_only_plain_http_knows_is_said_to_be_of_no_use() {
    let server = start(works()).await;
    let document = with(
        to(&server, "query", json!({})),
        "policy",
        json!({"routes": []}),
    );
    let output = run(&["call", "--json"], document.to_string()).await;
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("$.policy: not used with a service"), "{said}");
    let document = with(to(&server, "index", json!({})), "linger_ms", json!(0));
    let output = run(&["call", "--json"], document.to_string()).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("reattempt call: $.service: unknown variant `index`, expected one of"),
        "{said}"
    );
}
