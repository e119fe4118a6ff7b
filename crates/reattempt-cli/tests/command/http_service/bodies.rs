//! Bodies in pieces, broken-off bodies, and large bodies.

use super::*;

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
        r#"{{"x": "{}", "errors": [{{"code": 4040, "msg": "far"}}]}}"#,
        "x".repeat(1 << 20)
    );
    server.set_script(Step::status(500).body(far.clone()));
    let answer = call(&server, "query", json!({"readonly": true})).await;
    assert!(body(&answer) == far);
    assert_eq!(
        (&answer["stopped"], &answer["code"]),
        (&json!("fatal"), &Value::Null),
        "the status decided, before the errors were reached"
    );
    assert_eq!(answer["error_message"], "far");
    assert_eq!(each(&answer, "n").len(), 1);
}

/// A success up to the bound, then an error: the answer had begun.
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
