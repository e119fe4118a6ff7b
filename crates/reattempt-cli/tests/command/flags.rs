//! `reattempt call` for people.

use reattempt_testbed::{grpc, http, kv, mongodb};

use super::{file, has, http_server, program, run, run_with};

#[tokio::test]
async fn people_see_the_answer_and_a_line_per_attempt() {
    let script = http::Script::new()
        .then(http::Step::status(503).header("retry-after-ms", "30"))
        .otherwise(http::Step::status(200).body("hello"));
    let server = http_server(script).await;
    let target = server.uri();
    let said = run(format!(
        "call --protocol http --target {target} --path /a --header 'X-One: 1' --method PUT \
         --payload body --timeout 20s"
    ));
    let said = said.await.says(0);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 6, "{said}");
    assert!(lines[0].starts_with("1: 2 attempts in "), "{said}");
    assert_eq!(lines[5], "  stopped: success, the call ended well");
    has(lines[1], ["200 OK"]);
    assert_eq!(lines[2].trim(), "hello");
    let failed = "failed: HTTP_SERVICE_UNAVAILABLE, retryable (response), pushback 30.0 ms";
    has(lines[3], ["1 initial", failed, "next after 30.0 ms"]);
    has(lines[4], ["2 retry", "success"]);
    let seen = server.seen();
    assert_eq!((seen[0].method.as_str(), &*seen[0].path), ("PUT", "/a"));
    assert_eq!(seen[0].header("x-one"), Some("1"));
    assert_eq!(seen[0].body, "body");
}

#[tokio::test]
async fn the_flags_of_a_grpc_call_make_the_same_call() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    let (target, config) = (server.addr(), file("flags.json", "{}"));
    let said = run(format!(
        "call --target {target} --method /a.B/C --payload one --payload two --kind bidi --repeat 2 \
         --config '{config}'"
    ));
    let said = said.await.says(0);
    assert_eq!(said.matches("code 0 (OK)").count(), 2, "{said}");
    has(&said, ["  one\n  two\n"]);
    assert_eq!(server.seen()[0].messages, ["one", "two"]);
}

#[tokio::test]
async fn a_config_that_cannot_be_used_makes_no_call() {
    for (call, content, fault) in [
        (
            "grpc://127.0.0.1:1 --method /a.B/C",
            r#"{"methodConfig": 1}"#,
            "$.methodConfig: must be an array of objects, got 1",
        ),
        (
            "http://127.0.0.1:1 --method GET",
            r#"{"default": 1}"#,
            "$.default: must be an object, got 1",
        ),
    ] {
        let config = file("unusable.json", content);
        let ended = run(format!("call {call} --config '{config}'")).await;
        let line = format!("reattempt call: {config}: {fault}");
        assert_eq!(ended.complains(2), line);
    }
}

#[tokio::test]
async fn standard_input_is_read_once() {
    for flags in ["--config - --payload @-", "--payload @- --payload @-"] {
        let line = format!("call http://127.0.0.1:1 --method PUT {flags}");
        let again = "reattempt call: -: standard input was read already";
        assert_eq!(run_with(&line, "{}").await.complains(2), again, "{flags}");
    }
}

#[tokio::test]
async fn key_value_and_mongodb_calls_have_their_flags() {
    let node = kv::Node::start().await.unwrap();
    let get = format!(
        "call --protocol kv --target {} --bucket default --username Administrator \
         --password password --key k",
        node.addr()
    );
    let set = run(format!("{get} --op set --payload hello"));
    has(&set.await.says(0), ["  status 0x00 (SUCCESS)\n"]);
    has(&run(&get).await.says(0), ["  hello\n"]);

    let node = mongodb::Node::start().await.unwrap();
    let find = format!(
        "--target {} --op find --options '{{\"limit\": 1}}'",
        node.uri()
    );
    let said = run(format!("call --protocol mongodb {find}")).await.says(0);
    has(&said, ["  0 documents\n"]);
}

#[tokio::test]
async fn flags_that_make_no_call_are_one_line_and_status_2() {
    for (call, fault) in [
        ("--target h:1", "--method: is required for grpc"),
        (
            "''",
            "the target: is empty: write a URL, host:port or a connection string",
        ),
        (
            "http://h:1 --rate 5",
            "--rate: needs --repeat or --duration",
        ),
        (
            "http://h:1 --method /a/b",
            "--method: is a gRPC method: write --protocol grpc, or a grpc:// target",
        ),
        (
            "http://h:1/a?b --path /c",
            "$.calls[0].path: cannot follow a target that has a query: \"/c\"",
        ),
        (
            "--target h:1 --method /a/b --header x",
            "--header: number 1 has no colon: write it as name: value",
        ),
        (
            "http://h:1 --op get",
            "--op: is a flag of kv and mongodb, and this is a call of http",
        ),
        (
            "h:1 --method /a/b --http-version 2",
            "--http-version: is a flag of http, and this is a call of grpc",
        ),
        (
            "http://h:1 --strategy fail_fast",
            "--strategy: needs --service in a call of http",
        ),
        (
            "'http://h:1/a b'",
            "$.target: invalid uri character, got \"http://h:1/a b\"",
        ),
        (
            "http://:80",
            "$.target: must be a URL or host:port, got \"http://:80\"",
        ),
        (
            r#"mongodb://h:1 --options '{"a": 1, "b": [{"c": 1, "c": 2}], "a": 2}'"#,
            "$.calls[0].options.a: is there twice; $.calls[0].options.b[0].c: is there twice",
        ),
        (
            r#"mongodb://h:1 --options '{"a": 1}, {'"#,
            "--options: trailing characters at line 1 column 9",
        ),
        (
            "ftp://h:1",
            "the target: unknown scheme `ftp`: use http, https, grpc, grpcs, couchbase, memcached \
             or mongodb, or set --protocol",
        ),
    ] {
        let said = run(format!("call {call}")).await.complains(2);
        assert_eq!(said, format!("reattempt call: {fault}"));
    }
}

#[tokio::test]
async fn calls_that_are_none_are_a_usage_error() {
    for (flag, none) in [("--repeat", "0"), ("--duration", "0s")] {
        let ended = run(format!("call http://127.0.0.1:1/ {flag} {none}")).await;
        has(&ended.complains(2), [&format!("for '{flag} <")]);
    }
}

#[tokio::test]
async fn a_wrong_operation_is_answered_with_the_right_ones() {
    for (call, first, last) in [
        ("couchbase://h:1 --key k", "get, ", ", get_collection_id"),
        ("mongodb://h:1", "find, ", ", txnFind"),
    ] {
        let said = run(format!("call {call} --op bogus")).await.complains(2);
        has(
            &said,
            [&format!("unknown operation \"bogus\": use one of {first}")],
        );
        assert!(said.ends_with(last), "{said}");
    }
}

#[tokio::test]
async fn login_flags_that_would_have_no_effect_are_refused() {
    let no_user = "--password: needs --username, or a user before the node";
    let memcached =
        |flag| format!("{flag}: memcached servers have no login and no buckets: leave it out");
    let not_first = "the target: a user and a password stand before the first node, with a comma \
                     in them as %2C";
    for (call, fault) in [
        ("couchbase://h --password hunter2", no_user),
        ("couchbase://h --password hunter2 --username ''", no_user),
        (
            "memcached://h --username u --password hunter2",
            &memcached("--username"),
        ),
        ("memcached://h --password hunter2", &memcached("--password")),
        (
            "--protocol kv h:1 --memcached --bucket b",
            &memcached("--bucket"),
        ),
        ("couchbase://h1:11210,u:hunter2@h2", not_first),
        ("couchbase://h1,u:hunter2@h2:11210", not_first),
        ("couchbase://h1,u@h2", not_first),
        ("couchbase://[::1]:11210,u:hunter2@h2", not_first),
        ("couchbase://[::1],u:hunter2@h2", not_first),
        ("couchbase://h1:112100,u:hunter2@h2", not_first),
        ("couchbase://h1:11210=mcd,u:hunter2@h2", not_first),
    ] {
        let said = run(format!("call {call} --key k")).await.complains(2);
        assert_eq!(said, format!("reattempt call: {fault}"), "{call}");
    }
}

#[tokio::test]
async fn the_password_may_be_a_flag_and_the_user_in_the_target() {
    let node = kv::Node::start().await.unwrap();
    let said = run(format!(
        "call couchbase://Administrator@{} --password password --bucket default --op set --key k",
        node.addr()
    ));
    has(&said.await.says(0), ["  status 0x00 (SUCCESS)\n"]);
}

/// A little more than is read.
#[cfg(unix)]
#[tokio::test]
async fn a_document_without_an_end_is_not_read_into_memory() {
    let path = super::path("endless.json");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let child = program("call --json").stdin(file).spawn().unwrap();
    let ended = super::end_of(child, "").await;
    std::fs::remove_file(&path).unwrap();
    let fault = "reattempt call: standard input: is longer than 256 MiB";
    assert_eq!(ended.complains(2), fault);
}

#[tokio::test]
async fn a_service_is_called_as_people_mean_it() {
    let gone = r#"{"errors": [{"code": 4060, "msg": "no such prepared statement"}]}"#;
    let wrong = r#"{"errors": [{"code": 3000, "msg": "syntax error"}]}"#;
    let script = http::Script::new()
        .then(http::Step::status(404).body(gone))
        .then(http::Step::close_before())
        .otherwise(http::Step::status(400).body(wrong));
    let server = http_server(script).await;
    let (target, statement) = (server.uri(), r#"{"statement": "SELECT 1"}"#);
    let said = run(format!(
        "call --protocol http --target {target} --service query --readonly \
         --current-server-codes --payload '{statement}'"
    ));
    let again = "QUERY_PREPARED_STATEMENT_FAILURE";
    let closed = "SOCKET_CLOSED_WHILE_IN_FLIGHT";
    let last = "error 3000: syntax error";
    has(&said.await.says(1), ["3 attempts", again, closed, last]);
    let seen = &server.seen()[0];
    assert_eq!(
        (seen.method.as_str(), &*seen.path),
        ("POST", "/query/service")
    );
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.body, statement);

    // It means nothing to plain HTTP.
    let plain = run("call --protocol http --target h:1 --readonly").await;
    assert_eq!(plain.status, Some(2));
}

/// What is said beside the result is not read: the result is the same.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_cannot_be_written_to_standard_error_costs_no_result() {
    let document = r#"{"protocol": "http", "target": "127.0.0.1:1", "unknown": 1,
        "calls": [{"path": "/", "timeout_ms": 50}]}"#;
    for (command, document, status) in [("call", document, 0), ("call", "{}", 2), ("lab", "{}", 2)]
    {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut program = program(&format!("{command} --json"));
        let child = program
            .stdin(std::process::Stdio::piped())
            .stderr(full)
            .spawn();
        let ended = super::end_of(child.unwrap(), document).await;
        assert_eq!(ended.status, Some(status), "{command} {document}");
        assert_eq!(ended.out.is_empty(), status != 0, "{command}");
    }
}
