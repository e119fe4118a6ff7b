//! `reattempt call` for people.

use reattempt_testbed::{grpc, http, kv, mongodb};

use super::{run, text};

async fn call(arguments: &[&str]) -> String {
    let output = run(&[&["call"], arguments].concat(), String::new()).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test]
async fn people_see_the_answer_and_a_line_per_attempt() {
    let script = http::Script::new()
        .then(http::Step::status(503).header("retry-after-ms", "30"))
        .otherwise(http::Step::status(200).body("hello"));
    let server = http::Server::start(script).await.unwrap();
    let uri = server.uri();
    let arguments = [
        "--protocol",
        "http",
        "--target",
        &uri,
        "--path",
        "/a",
        "--header",
        "X-One: 1",
        "--method",
        "PUT",
        "--payload",
        "body",
        "--timeout",
        "20s",
    ];
    let said = call(&arguments).await;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 6, "{said}");
    assert!(lines[0].starts_with("1: 2 attempts in "), "{said}");
    assert_eq!(lines[5], "  stopped: success, the call ended well");
    assert!(lines[1].contains("200 OK"), "{said}");
    assert_eq!(lines[2].trim(), "hello");
    assert!(lines[3].contains("1 initial"), "{said}");
    assert!(
        lines[3]
            .contains("failed: HTTP_SERVICE_UNAVAILABLE, retryable (response), pushback 30.0 ms")
    );
    assert!(lines[3].contains("next after 30.0 ms"), "{said}");
    assert!(
        lines[4].contains("2 retry") && lines[4].contains("success"),
        "{said}"
    );
    let seen = server.seen();
    assert_eq!((seen[0].method.as_str(), &*seen[0].path), ("PUT", "/a"));
    assert_eq!(seen[0].header("x-one"), Some("1"));
    assert_eq!(seen[0].body, "body");
}

#[tokio::test]
async fn the_flags_of_a_grpc_call_make_the_same_call() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    let target = server.addr().to_string();
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("flags.json");
    std::fs::write(&config, "{}").unwrap();
    let arguments = [
        "--target",
        &target,
        "--method",
        "/a.B/C",
        "--payload",
        "one",
        "--payload",
        "two",
        "--kind",
        "bidi",
        "--repeat",
        "2",
        "--config",
        config.to_str().unwrap(),
    ];
    let said = call(&arguments).await;
    assert_eq!(said.matches("code 0 (OK)").count(), 2, "{said}");
    assert!(said.contains("  one\n  two\n"), "{said}");
    assert_eq!(server.seen()[0].messages, ["one", "two"]);
}

#[tokio::test]
async fn a_config_that_cannot_be_used_makes_no_call() {
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unusable.json");
    for (target, content, line) in [
        (
            "grpc://127.0.0.1:1",
            r#"{"methodConfig": 1}"#,
            "$.service_config.methodConfig: must be an array of objects, got 1",
        ),
        (
            "http://127.0.0.1:1",
            r#"{"default": 1}"#,
            "$.policy.default: must be an object, got 1",
        ),
    ] {
        std::fs::write(&config, content).unwrap();
        let method = ["GET", "/a.B/C"][usize::from(target.starts_with("grpc"))];
        let config = config.to_str().unwrap();
        let flags = ["call", target, "--method", method, "--config", config];
        let output = run(&flags, String::new()).await;
        assert_eq!(output.status.code(), Some(2), "{target}");
        assert_eq!(text(&output.stdout), "", "{target}");
        let said = text(&output.stderr);
        assert_eq!(said.trim_end(), format!("reattempt call: {config}: {line}"));
    }
}

#[tokio::test]
async fn standard_input_is_read_once() {
    for arguments in [
        &["--config", "-", "--payload", "@-"][..],
        &["--payload", "@-", "--payload", "@-"],
    ] {
        let target = ["call", "http://127.0.0.1:1", "--method", "PUT"];
        let output = run(&[&target[..], arguments].concat(), "{}".to_owned()).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let line = "reattempt call: -: standard input was read already";
        assert_eq!(text(&output.stderr).trim_end(), line);
    }
}

#[tokio::test]
async fn key_value_and_mongodb_calls_have_their_flags() {
    let node = kv::Node::start().await.unwrap();
    let target = node.addr().to_string();
    let login = [
        "--protocol",
        "kv",
        "--target",
        &target,
        "--bucket",
        "default",
        "--username",
        "Administrator",
        "--password",
        "password",
        "--key",
        "k",
    ];
    let said = call(&[&login[..], &["--op", "set", "--payload", "hello"]].concat()).await;
    assert!(said.contains("  status 0x00 (SUCCESS)\n"), "{said}");
    let said = call(&login).await;
    assert!(said.contains("  hello\n"), "{said}");

    let node = mongodb::Node::start().await.unwrap();
    let uri = node.uri();
    let arguments = [
        "--protocol",
        "mongodb",
        "--target",
        &uri,
        "--op",
        "find",
        "--options",
        r#"{"limit": 1}"#,
    ];
    let said = call(&arguments).await;
    assert!(said.contains("  0 documents\n"), "{said}");
}

#[tokio::test]
async fn flags_that_make_no_call_are_one_line_and_status_2() {
    for (arguments, line) in [
        (
            &["--target", "h:1"][..],
            "reattempt call: --method: is required for grpc",
        ),
        (
            &[""],
            "reattempt call: the target: is empty: write a URL, host:port or a connection string",
        ),
        (
            &["http://h:1", "--rate", "5"],
            "reattempt call: --rate: needs --repeat or --duration",
        ),
        (
            &["http://h:1", "--method", "/a/b"],
            "reattempt call: --method: is a gRPC method: write --protocol grpc, or a grpc:// target",
        ),
        (
            &["http://h:1/a?b", "--path", "/c"],
            "reattempt call: $.calls[0].path: cannot follow a target that has a query: \"/c\"",
        ),
        (
            &["--target", "h:1", "--method", "/a/b", "--header", "x"],
            "reattempt call: --header: number 1 has no colon: write it as name: value",
        ),
        (
            &["http://h:1", "--op", "get"],
            "reattempt call: --op: is a flag of kv and mongodb, and this is a call of http",
        ),
        (
            &["h:1", "--method", "/a/b", "--http-version", "2"],
            "reattempt call: --http-version: is a flag of http, and this is a call of grpc",
        ),
        (
            &["http://h:1", "--strategy", "fail_fast"],
            "reattempt call: --strategy: needs --service in a call of http",
        ),
        (
            &["http://h:1/a b"],
            "reattempt call: $.target: invalid uri character, got \"http://h:1/a b\"",
        ),
        (
            &["http://:80"],
            "reattempt call: $.target: must be a URL or host:port, got \"http://:80\"",
        ),
        (
            &[
                "mongodb://h:1",
                "--options",
                r#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 2}"#,
            ],
            "reattempt call: $.calls[0].options.a: is there twice; \
             $.calls[0].options.b[0].c: is there twice",
        ),
        (
            &["mongodb://h:1", "--options", r#"{"a": 1}, {"#],
            "reattempt call: --options: trailing characters at line 1 column 9",
        ),
        (
            &["ftp://h:1"],
            "reattempt call: the target: unknown scheme `ftp`: use http, https, grpc, grpcs, \
             couchbase, memcached or mongodb, or set --protocol",
        ),
    ] {
        let output = run(&[&["call"], arguments].concat(), String::new()).await;
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr).trim_end(), line);
    }
}

#[tokio::test]
async fn calls_that_are_none_are_a_usage_error() {
    for flags in [["--repeat", "0"], ["--duration", "0s"]] {
        let arguments = ["call", "http://127.0.0.1:1/"];
        let output = run(&[&arguments[..], &flags].concat(), String::new()).await;
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("for '{} <", flags[0])), "{said}");
    }
}

#[tokio::test]
async fn a_wrong_operation_is_answered_with_the_right_ones() {
    let kv = ["couchbase://h:1", "--key", "k", "--op", "bogus"];
    let mongodb = ["mongodb://h:1", "--op", "bogus"];
    for (arguments, named) in [
        (&kv[..], ["get, ", ", get_collection_id"]),
        (&mongodb, ["find, ", ", txnFind"]),
    ] {
        let output = run(&[&["call"], arguments].concat(), String::new()).await;
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        let unknown = format!("unknown operation \"bogus\": use one of {}", named[0]);
        assert!(said.contains(&unknown), "{said}");
        assert!(said.trim_end().ends_with(named[1]), "{said}");
    }
}

#[tokio::test]
async fn login_flags_that_would_have_no_effect_are_refused() {
    let no_user = "reattempt call: --password: needs --username, or a user before the node";
    let memcached = |flag| {
        format!(
            "reattempt call: {flag}: memcached servers have no login and no buckets: leave it out"
        )
    };
    let not_first = "reattempt call: the target: a user and a password stand before the first \
                     node, with a comma in them as %2C";
    for (arguments, line) in [
        (&["couchbase://h", "--password", "hunter2"][..], no_user),
        (
            &["couchbase://h", "--password", "hunter2", "--username", ""],
            no_user,
        ),
        (
            &["memcached://h", "--username", "u", "--password", "hunter2"],
            &memcached("--username"),
        ),
        (
            &["memcached://h", "--password", "hunter2"],
            &memcached("--password"),
        ),
        (
            &["--protocol", "kv", "h:1", "--memcached", "--bucket", "b"],
            &memcached("--bucket"),
        ),
        (&["couchbase://h1:11210,u:hunter2@h2"], not_first),
        (&["couchbase://h1,u:hunter2@h2:11210"], not_first),
        (&["couchbase://h1,u@h2"], not_first),
        (&["couchbase://[::1]:11210,u:hunter2@h2"], not_first),
        (&["couchbase://[::1],u:hunter2@h2"], not_first),
        (&["couchbase://h1:112100,u:hunter2@h2"], not_first),
        (&["couchbase://h1:11210=mcd,u:hunter2@h2"], not_first),
    ] {
        let output = run(
            &[&["call"], arguments, &["--key", "k"]].concat(),
            String::new(),
        )
        .await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stderr).trim_end(), line, "{arguments:?}");
    }
}

#[tokio::test]
async fn the_password_may_be_a_flag_and_the_user_in_the_target() {
    let node = kv::Node::start().await.unwrap();
    let target = format!("couchbase://Administrator@{}", node.addr());
    let arguments = [
        &target,
        "--password",
        "password",
        "--bucket",
        "default",
        "--op",
        "set",
        "--key",
        "k",
    ];
    let said = call(&arguments).await;
    assert!(said.contains("  status 0x00 (SUCCESS)\n"), "{said}");
}

/// A little more than is read.
#[cfg(unix)]
#[tokio::test]
async fn a_document_without_an_end_is_not_read_into_memory() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("endless.json");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .args(["call", "--json"])
        .stdin(std::fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "reattempt call: standard input: is longer than 256 MiB\n"
    );
}

#[tokio::test]
async fn a_service_is_called_as_people_mean_it() {
    let gone = r#"{"errors": [{"code": 4060, "msg": "no such prepared statement"}]}"#;
    let script = http::Script::new()
        .then(http::Step::status(404).body(gone))
        .then(http::Step::close_before())
        .otherwise(
            http::Step::status(400).body(r#"{"errors": [{"code": 3000, "msg": "syntax error"}]}"#),
        );
    let server = http::Server::start(script).await.unwrap();
    let output = run(
        &[
            "call",
            "--protocol",
            "http",
            "--target",
            &server.uri(),
            "--service",
            "query",
            "--readonly",
            "--current-server-codes",
            "--payload",
            r#"{"statement": "SELECT 1"}"#,
        ],
        String::new(),
    )
    .await;
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(said.contains("3 attempts"), "{said}");
    assert!(said.contains("QUERY_PREPARED_STATEMENT_FAILURE"), "{said}");
    assert!(said.contains("SOCKET_CLOSED_WHILE_IN_FLIGHT"), "{said}");
    assert!(said.contains("error 3000: syntax error"), "{said}");
    let seen = &server.seen()[0];
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/query/service")
    );
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.body, r#"{"statement": "SELECT 1"}"#);

    let output = run(
        &[
            "call",
            "--protocol",
            "http",
            "--target",
            "h:1",
            "--readonly",
        ],
        String::new(),
    )
    .await;
    assert_eq!(
        output.status.code(),
        Some(2),
        "it means nothing to plain HTTP"
    );
}

/// What is said beside the result is not read: the result is the same.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_to_standard_error_costs_no_result() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let full = || std::fs::File::options().write(true).open("/dev/full");
    let document = r#"{"protocol": "http", "target": "127.0.0.1:1", "unknown": 1,
        "calls": [{"path": "/", "timeout_ms": 50}]}"#;
    for (command, document, status) in [("call", document, 0), ("call", "{}", 2), ("lab", "{}", 2)]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_reattempt"))
            .args([command, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(full().expect("/dev/full"))
            .spawn()
            .expect("the program");
        let mut stdin = program.stdin.take().expect("its input");
        stdin.write_all(document.as_bytes()).expect("it reads");
        drop(stdin);
        let output = program.wait_with_output().expect("its output");
        assert_eq!(output.status.code(), Some(status), "{command} {document}");
        assert_eq!(output.stdout.is_empty(), status != 0, "{command}");
    }
}
