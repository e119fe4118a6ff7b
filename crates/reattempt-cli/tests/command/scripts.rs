//! What scripts rely on: targets, exit statuses, pipes, and the summary of many calls.

use std::process::{Output, Stdio};

use reattempt_testbed::{grpc, http, kv};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::causes::{call, http_server};
use super::{SOON, run, text};

#[tokio::test]
async fn the_path_and_query_of_a_url_are_asked_for() {
    let server = http_server(http::Step::status(200)).await;
    let url = format!("{}/a/b?c=d", server.uri());
    for arguments in [
        &[&*url][..],
        &["--target", &url],
        &[&server.uri(), "--path", "/a/b?c=d"],
        &[&format!("{}/a/", server.uri()), "--path", "/b?c=d"],
    ] {
        assert_eq!(call(arguments).await.0, Some(0), "{arguments:?}");
    }
    for seen in server.seen() {
        assert_eq!((seen.method.as_str(), &*seen.path), ("GET", "/a/b?c=d"));
    }
    assert_eq!(server.seen_count(), 4);
}

#[tokio::test]
async fn the_protocol_follows_from_the_target() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    let address = server.addr().to_string();
    for target in [address.clone(), format!("grpc://{address}")] {
        let (status, said) = call(&[&target, "--method", "/a.B/C"]).await;
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("code 0 (OK)"), "{said}");
    }
    let node = kv::Node::start().await.unwrap();
    let target = format!("couchbase://Administrator:password@{}", node.addr());
    let flags = ["--bucket", "default", "--key", "k", "--op", "set"];
    let (status, said) = call(&[&[&*target], &flags[..]].concat()).await;
    assert_eq!(status, Some(0), "{said}");
}

#[tokio::test]
async fn a_failed_call_is_status_1_and_its_last_line_says_why() {
    for (step, stopped) in [
        (http::Step::status(404), "stopped: fatal, "),
        (http::Step::status(503), "stopped: attempts, "),
    ] {
        let server = http_server(step).await;
        let (status, said) = call(&[&server.uri(), "--seed", "1"]).await;
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.trim_start().starts_with(stopped), "{said}");
    }
    let script = http::Script::new().then(http::Step::status(404));
    let server = http_server(script.otherwise(http::Step::status(200))).await;
    let (status, _) = call(&[&server.uri(), "--repeat", "2"]).await;
    assert_eq!(status, Some(1), "one of two calls failed");
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
    let output = run(&["call", "--help"], String::new()).await;
    let help = text(&output.stdout);
    for part in [
        "Exit status:",
        "  1  a call failed",
        "130  Ctrl-C",
        "gRPC (reattempt call grpc://",
        "HTTP (reattempt call http://",
        "Key-value (reattempt call couchbase://",
        "MongoDB (reattempt call mongodb://",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    let output = run(&["check", "--help"], String::new()).await;
    assert!(text(&output.stdout).contains("Exit status:"));
}

#[tokio::test]
async fn more_than_ten_calls_are_summed_up() {
    let script = http::Script::new()
        .then_times(2, http::Step::status(404))
        .then(http::Step::status(503).header("retry-after-ms", "1"))
        .otherwise(http::Step::status(200));
    let server = http_server(script).await;
    let (status, said) = call(&[&server.uri(), "--repeat", "20"]).await;
    assert_eq!(status, Some(1));
    assert_eq!(said.matches("stopped: fatal, ").count(), 2, "{said}");
    assert_eq!(said.matches(" attempt in ").count(), 2, "{said}");
    for line in [
        "20 calls in ",
        "  success            90.00 %",
        "  attempts per call  1.050",
        "  p50                ",
        "  p99                ",
        "HTTP_SERVICE_UNAVAILABLE 1",
        "  stopped            success 18, fatal 2",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(server.seen_count(), 21);
}

#[tokio::test]
async fn calls_are_begun_at_a_rate_for_a_time() {
    let server = http_server(http::Step::status(200)).await;
    let uri = server.uri();
    let flags = ["call", &uri, "--rate", "50", "--duration", "300ms"];
    let output = run(&flags, String::new()).await;
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    // A slow machine may begin some of them late.
    let late = "reattempt call: calls that began late, because ";
    assert!(
        complaint.is_empty() || complaint.starts_with(late),
        "{complaint}"
    );
    assert!(said.contains("  success            100.00 %"), "{said}");
    let calls = server.seen_count();
    // A slow machine may begin fewer of the fifteen before the time is over.
    assert!((1..=15).contains(&calls), "{calls}");
    let (status, said) = call(&[&server.uri(), "--duration", "50ms"]).await;
    assert_eq!(status, Some(0));
    assert!(said.contains(" calls in "), "{said}");
}

/// `reattempt call`, while it runs.
#[cfg(unix)]
fn started(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .arg("call")
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What the program wrote until Ctrl-C ended it.
#[cfg(unix)]
async fn interrupted(child: Child) -> Output {
    let process = child.id().unwrap().to_string();
    let kill = Command::new("kill").args(["-INT", &process]).status();
    assert!(kill.await.unwrap().success());
    let ended = timeout(SOON, child.wait_with_output()).await;
    ended.expect("the program hangs").unwrap()
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
    let child = started(&[&server.uri(), "--duration", "3600s"]);
    let begun = timeout(SOON, hanging.recv()).await;
    assert!(begun.expect("no call hangs").is_some());
    let output = interrupted(child).await;
    assert_eq!(output.status.code(), Some(130));
    let said = text(&output.stdout);
    assert!(said.starts_with("13: 1 attempt in "), "{said}");
    assert!(said.contains("\n12 calls in "), "{said}");
    assert!(said.contains("  success            100.00 %"), "{said}");
    let in_flight = "\n  in flight          1, ended by Ctrl-C and not counted\n";
    assert!(said.ends_with(in_flight), "{said}");
    assert!(text(&output.stderr).contains("calls in flight are not counted"));
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
    let child = started(&[&server.uri()]);
    for _ in 0..2 {
        let seen = timeout(SOON, seen.recv()).await;
        assert!(seen.expect("no attempt comes").is_some());
    }
    let output = interrupted(child).await;
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(
        text(&output.stderr),
        "reattempt call: interrupted\n",
        "there is no summary that could count them"
    );
    let said = text(&output.stdout);
    assert!(said.starts_with("1: 2 attempts in "), "{said}");
    assert!(
        said.contains("failed: HTTP_SERVICE_UNAVAILABLE, retryable"),
        "{said}"
    );
    assert!(said.contains("2 retry "), "{said}");
    assert!(said.contains("stopped: cancelled, "), "{said}");
}

/// As `| head -1` does.
#[tokio::test]
async fn a_reader_that_wants_no_more_is_no_error() {
    let server = http_server(http::Step::status(200)).await;
    let url = server.uri();
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("piped.json");
    std::fs::write(&config, "{}").unwrap();
    for arguments in [
        &["call", &url][..],
        &["check", config.to_str().unwrap()],
        &["demo", "--quick", "--protocol", "http"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(env!("CARGO_BIN_EXE_reattempt"))
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = timeout(SOON, ended)
            .await
            .expect("the program hangs")
            .unwrap();
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}
