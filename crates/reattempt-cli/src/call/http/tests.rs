use reattempt_testbed::http::{Script, Server, Step};
use serde_json::json;

use super::*;

/// What a call comes to of which at most this many bytes of a body are read.
async fn read_at_most(most: usize, service: Option<&str>, step: Step) -> Value {
    let server = Server::start(Script::new().then(step)).await.unwrap();
    let document = json!({
        "protocol": "http", "target": server.uri(), "service": service,
        "calls": [{"method": "POST", "timeout_ms": 30000}],
    });
    let document = Document::parse(document.to_string().as_bytes());
    let mut plan = plan(document).unwrap();
    plan.caller.longest_body = most;
    let (head, call) = plan.calls.remove(0);
    let answer = plan.caller.call(head, call).await;
    let mut line = Vec::new();
    answer.write_line(&mut line).unwrap();
    serde_json::from_slice(&line).unwrap()
}

#[tokio::test]
async fn a_good_answer_stays_good_beyond_what_is_read_of_it() {
    let answer = |most| read_at_most(most, None, Step::status(200).body("hello"));
    let cut = answer(4).await;
    assert_eq!(cut["body"], "aGVsbA==");
    assert_eq!(cut["stopped"], "success");
    let attempt = &cut["attempts"][0];
    assert_eq!(
        (&attempt["verdict"], &attempt["reason"]),
        (&json!("success"), &Value::Null)
    );
    assert_eq!(
        cut["error"],
        "the answer's body has more than 4 bytes, the most read"
    );
    let whole = answer(5).await;
    assert_eq!(
        (&whole["body"], &whole["error"]),
        (&json!("aGVsbG8="), &Value::Null)
    );
}

#[tokio::test]
async fn a_services_answer_is_judged_by_what_was_read_of_it() {
    let errors = r#""errors": [{"code": 3000, "msg": "no"}]"#;
    let rows = r#""results": ["0123456789"]"#;
    let of = |status, members: [&str; 2]| {
        let body = format!("{{{}}}", members.join(", "));
        read_at_most(
            body.len() - 5,
            Some("query"),
            Step::status(status).body(body),
        )
    };
    for status in [200, 500] {
        let failed = of(status, [errors, rows]).await;
        assert_eq!(
            (&failed["code"], &failed["error_message"]),
            (&json!(3000), &json!("no"))
        );
        assert_eq!(failed["stopped"], "fatal");
    }
    let good = of(200, [rows, r#""status": "success""#]).await;
    assert_eq!(
        (&good["stopped"], &good["code"]),
        (&json!("success"), &Value::Null)
    );
    assert_eq!(good["attempts"][0]["verdict"], "success");
    assert!(good["error"].as_str().unwrap().contains(" bytes"), "{good}");
}

#[tokio::test]
async fn a_faulty_path_is_repeated_without_its_query() {
    let document = json!({
        "protocol": "http", "target": "h:1", "calls": [{"path": "/a b?key=hunter2"}],
    });
    let document = Document::parse(document.to_string().as_bytes());
    let found = document.found();
    let plan = plan(document);
    let fault = found.check(plan).unwrap_err().listed();
    let expected = "$.calls[0].path: invalid uri character: \"/a b?\u{2026}\"";
    assert_eq!(fault, expected);
}
