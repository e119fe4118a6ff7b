//! Deadlines, strategies, and failures before an answer.

use super::*;

/// C5 C6 C7
#[tokio::test]
async fn views_without_active_partition_retry_until_the_deadline() {
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
    // The beginning of an answer, then nothing more.
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
