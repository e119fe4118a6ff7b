//! A target's user and password: sent to the target only, and never shown.

use reattempt_testbed::http::{Script, Server, Step};
use reattempt_testbed::kv::{Node, opcode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{document, run, text, with};

/// Runs a document and asserts that the program's output does not contain the secrets.
async fn quiet(document: Value) -> (Option<i32>, Vec<Value>, String) {
    let output = run(&["call", "--json"], document.to_string()).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    for secret in ["hunter2", "us:er", "us%3Aer", "user:", "aHVudGVyMg"] {
        assert!(!out.contains(secret), "{secret}: {out}");
        assert!(!err.contains(secret), "{secret}: {err}");
    }
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    (output.status.code(), lines.collect(), err)
}

/// `Basic` of `user:hunter2/`.
const BASIC: &str = "Basic dXNlcjpodW50ZXIyLw==";

#[tokio::test]
async fn http_sends_them_as_basic_to_the_target_alone() {
    for version in [1, 2] {
        let script = Script::new()
            .then(Step::status(503))
            .otherwise(Step::status(200));
        let server = Server::start(script).await.unwrap();
        let target = format!("http://user:hunter2%2F@{}/api", server.addr());
        let calls = json!([
            {"path": "/own"},
            {"path": "/named", "headers": {"host": server.addr().to_string()}},
            {"path": "/other", "headers": {"host": "other.example"}},
            {"path": "/call", "headers": {"Authorization": "Bearer t"}},
        ]);
        let document = with(document("http", &target, calls), "version", json!(version));
        let (_, answers, _) = quiet(document).await;
        for answer in &answers {
            assert_eq!(answer["status"], 200, "{answer}");
            let backend = &answer["attempts"][0]["backend"];
            assert_eq!(*backend, server.addr().to_string());
        }
        let sent: Vec<_> = server
            .seen()
            .iter()
            .map(|seen| {
                let sent = seen.header("authorization").map(str::to_owned);
                (seen.path.clone(), sent)
            })
            .collect();
        let expected = [
            ("/api/own", Some(BASIC)),
            ("/api/own", Some(BASIC)),
            ("/api/named", Some(BASIC)),
            ("/api/other", None),
            ("/api/call", Some("Bearer t")),
        ];
        let expected: Vec<_> = expected
            .map(|(path, sent)| (path.to_owned(), sent.map(str::to_owned)))
            .into();
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn what_fails_does_not_show_them() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    let get = json!([{"op": "get", "key": "k", "timeout_ms": 300}]);
    for (protocol, target, calls) in [
        (
            "http",
            format!("http://user:hunter2@{nowhere}/"),
            get.clone(),
        ),
        ("kv", format!("user:hunter2@{nowhere}"), get),
        (
            "mongodb",
            format!("mongodb://user:hunter2@{nowhere}/?serverSelectionTimeoutMS=300"),
            json!([{"op": "find"}]),
        ),
    ] {
        let (code, answers, _) = quiet(document(protocol, &target, calls)).await;
        assert_eq!(code, Some(0), "{protocol}");
        assert!(answers[0]["error"].is_string(), "{answers:?}");
    }
}

#[tokio::test]
async fn targets_that_cannot_be_used_do_not_show_them() {
    let memcached = |target: &str| {
        let document = document("kv", target, json!([]));
        with(document, "bootstrap", json!("memcached"))
    };
    let of = |protocol, target| document(protocol, target, json!([]));
    for (document, what) in [
        (of("grpc", "user:hunter2@h:1"), "takes no user and password"),
        (
            of("grpc", "http://user:hunter2@h:1"),
            "takes no user and password",
        ),
        (
            of("http", "https://user:hunter2@h/"),
            "must be an http:// URL",
        ),
        (of("http", "http://user:hunter2@h h/"), "must be a URL"),
        (of("http", "http://user:hunter2%@h/"), "percent-encoded"),
        (of("http", "http://us%3Aer:hunter2@h/"), "with a colon"),
        (of("http", "http://user:hunter2@x@h/"), "percent-encoded"),
        (of("kv", "user:hunter2@h"), "the port must be"),
        (of("kv", "kv://user:hunter2@h:1"), "\u{2026}@h:1"),
        (memcached("user:hunter2@h:1"), "not logged in"),
        (
            of("mongodb", "mongodb://user:27017/hunter2@h"),
            "percent-encoded",
        ),
        (of("mongodb", "mongodb://user:hunter2@h:x/"), "port"),
    ] {
        let (code, _, said) = quiet(document).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(what), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let named_twice = json!(["user:hunter2@h:1", "other:hunter2@h:2"]);
    let document = with(of("kv", "h:1"), "target", named_twice);
    let (code, _, said) = quiet(document).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("names two users"), "{said}");
}

#[tokio::test]
async fn kv_logs_in_with_them() {
    let node = Node::builder().require_auth().start().await.unwrap();
    node.store().put("k", "v");
    let call = json!([{"op": "get", "key": "k", "timeout_ms": 20_000}]);
    let target = format!("Administrator:pass%77ord@{}", node.addr());
    let to_bucket = |target: &str| {
        with(
            document("kv", target, call.clone()),
            "bucket",
            json!("default"),
        )
    };
    let (_, answers, _) = quiet(to_bucket(&target)).await;
    assert_eq!(answers[0]["status"], 0, "{answers:?}");
    assert_eq!(
        answers[0]["attempts"][0]["backend"],
        node.addr().to_string()
    );
    let logins = node
        .seen()
        .into_iter()
        .filter(|seen| seen.opcode == opcode::SASL_STEP);
    assert_eq!(logins.count(), 1);

    // The document's own fields take precedence.
    let wrong = with(to_bucket(&target), "username", json!("Administrator"));
    let wrong = with(wrong, "password", json!("hunter2"));
    let (_, answers, _) = quiet(wrong).await;
    assert_eq!(answers[0]["status"], Value::Null, "{answers:?}");
}

/// The parser's own error would repeat the value.
#[tokio::test]
async fn a_password_that_is_no_text_is_not_repeated() {
    let document = with(document("kv", "h:1", json!([])), "password", json!(4711));
    let (code, _, said) = quiet(document).await;
    assert_eq!(code, Some(2));
    assert_eq!(said, "reattempt call: $.password: must be a text\n");
}
