//! The verdict on each service's answers, and the reported fields.

use super::*;

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
        (&json!(4050), &json!("strategy"))
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
