//! What scripts rely on: targets, exit statuses, pipes, and the summary of many calls.

use reattempt_testbed::{grpc, http, kv};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Ended, SOON, end_of, file, has, http_server, program, run};

#[tokio::test]
async fn the_path_and_query_of_a_url_are_asked_for() {
    let server = http_server(http::Step::status(200)).await;
    let uri = server.uri();
    for target in [
        format!("{uri}/a/b?c=d"),
        format!("--target {uri}/a/b?c=d"),
        format!("{uri} --path /a/b?c=d"),
        format!("{uri}/a/ --path /b?c=d"),
    ] {
        run(format!("call {target}")).await.says(0);
    }
    for seen in server.seen() {
        assert_eq!((seen.method.as_str(), &*seen.path), ("GET", "/a/b?c=d"));
    }
    assert_eq!(server.seen_count(), 4);
}

#[tokio::test]
async fn the_protocol_follows_from_the_target() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    for scheme in ["", "grpc://"] {
        let call = format!("call {scheme}{} --method /a.B/C", server.addr());
        has(&run(&call).await.says(0), ["code 0 (OK)"]);
    }
    let node = kv::Node::start().await.unwrap();
    let target = format!("couchbase://Administrator:password@{}", node.addr());
    let call = format!("call {target} --bucket default --key k --op set");
    run(&call).await.says(0);
}

#[tokio::test]
async fn a_failed_call_is_status_1_and_its_last_line_says_why() {
    for (step, stopped) in [
        (http::Step::status(404), "stopped: fatal, "),
        (http::Step::status(503), "stopped: attempts, "),
    ] {
        let server = http_server(step).await;
        let said = run(format!("call {} --seed 1", server.uri())).await.says(1);
        let last = said.lines().last().unwrap();
        assert!(last.trim_start().starts_with(stopped), "{said}");
    }
    let script = http::Script::new().then(http::Step::status(404));
    let server = http_server(script.otherwise(http::Step::status(200))).await;
    // One of two calls fails.
    run(format!("call {} --repeat 2", server.uri()))
        .await
        .says(1);
}

#[tokio::test]
async fn the_document_s_calls_may_fail_with_status_0() {
    let server = http_server(http::Step::status(404)).await;
    let document = super::document("http", &server.uri(), serde_json::json!([{}]));
    let answers = super::answers(document).await;
    assert_eq!(answers[0]["status"], 404);
}

#[tokio::test]
async fn help_lists_the_exit_statuses_and_an_example_each() {
    let parts = [
        "Exit status:",
        "  1  a call failed",
        "130  Ctrl-C",
        "gRPC (reattempt call grpc://",
        "HTTP (reattempt call http://",
        "Key-value (reattempt call couchbase://",
        "MongoDB (reattempt call mongodb://",
    ];
    has(&run("call --help").await.says(0), parts);
    has(&run("check --help").await.says(0), ["Exit status:"]);
}

#[tokio::test]
async fn more_than_ten_calls_are_summed_up() {
    let script = http::Script::new()
        .then_times(2, http::Step::status(404))
        .then(http::Step::status(503).header("retry-after-ms", "1"))
        .otherwise(http::Step::status(200));
    let server = http_server(script).await;
    let said = run(format!("call {} --repeat 20", server.uri()))
        .await
        .says(1);
    assert_eq!(said.matches("stopped: fatal, ").count(), 2, "{said}");
    assert_eq!(said.matches(" attempt in ").count(), 2, "{said}");
    let parts = [
        "20 calls in ",
        "  success            90.00 %",
        "  attempts per call  1.050",
        "  p50                ",
        "  p99                ",
        "HTTP_SERVICE_UNAVAILABLE 1",
        "  stopped            success 18, fatal 2",
    ];
    has(&said, parts);
    assert_eq!(server.seen_count(), 21);
}

#[tokio::test]
async fn calls_are_begun_at_a_rate_for_a_time() {
    let server = http_server(http::Step::status(200)).await;
    let call = format!("call {}", server.uri());
    let ended = run(format!("{call} --rate 50 --duration 300ms")).await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    // A slow machine may begin some of them late.
    let late = "reattempt call: calls that began late, because ";
    assert!(
        ended.err.is_empty() || ended.err.starts_with(late),
        "{ended:?}"
    );
    has(&ended.out, ["  success            100.00 %"]);
    let calls = server.seen_count();
    // A slow machine may begin fewer of the fifteen before the time is over.
    assert!((1..=15).contains(&calls), "{calls}");
    has(
        &run(format!("{call} --duration 50ms")).await.says(0),
        [" calls in "],
    );
}

/// The end of the program by Ctrl-C.
#[cfg(unix)]
async fn interrupted(child: Child) -> Ended {
    let process = child.id().unwrap().to_string();
    let kill = Command::new("kill").args(["-INT", &process]).status();
    assert!(kill.await.unwrap().success());
    let ended = end_of(child, "").await;
    assert_eq!(ended.status, Some(130));
    ended
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_sums_up_the_calls_that_ended() {
    let (begun, mut hanging) = tokio::sync::mpsc::unbounded_channel();
    let script = http::Script::handler(move |seen: &http::SeenRequest| {
        if seen.number < 12 {
            return http::Step::status(200);
        }
        let _ = begun.send(());
        http::Step::hang()
    });
    let server = http_server(script).await;
    let mut program = program(&format!("call {} --duration 3600s", server.uri()));
    let child = program.spawn().unwrap();
    let begun = timeout(SOON, hanging.recv()).await;
    assert!(begun.expect("no call hangs").is_some());
    let Ended { out, err, .. } = interrupted(child).await;
    assert!(out.starts_with("13: 1 attempt in "), "{out}");
    has(&out, ["\n12 calls in ", "  success            100.00 %"]);
    let in_flight = "\n  in flight          1, ended by Ctrl-C and not counted\n";
    assert!(out.ends_with(in_flight), "{out}");
    has(&err, ["calls in flight are not counted"]);
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_shows_the_attempts_of_a_call_in_flight() {
    let (begun, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let script = http::Script::handler(move |request: &http::SeenRequest| {
        let _ = begun.send(());
        match request.number {
            0 => http::Step::status(503).header("retry-after-ms", "1"),
            _ => http::Step::hang(),
        }
    });
    let server = http_server(script).await;
    let child = program(&format!("call {}", server.uri())).spawn().unwrap();
    for _ in 0..2 {
        let seen = timeout(SOON, seen.recv()).await;
        assert!(seen.expect("no attempt comes").is_some());
    }
    let Ended { out, err, .. } = interrupted(child).await;
    let no_summary = "there is no summary that could count them";
    assert_eq!(err, "reattempt call: interrupted\n", "{no_summary}");
    assert!(out.starts_with("1: 2 attempts in "), "{out}");
    let failed = "failed: HTTP_SERVICE_UNAVAILABLE, retryable";
    has(&out, [failed, "2 retry ", "stopped: cancelled, "]);
}

/// As `| head -1` does.
#[tokio::test]
async fn a_reader_that_wants_no_more_is_no_error() {
    let server = http_server(http::Step::status(200)).await;
    for line in [
        format!("call {}", server.uri()),
        format!("check '{}'", file("piped.json", "{}")),
        "demo --quick --protocol http".to_owned(),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = program(&line).stdout(writer).spawn().unwrap();
        assert_eq!(end_of(child, "").await.err, "", "{line}");
    }
}
