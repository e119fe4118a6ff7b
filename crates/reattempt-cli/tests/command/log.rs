//! What `RUST_LOG` changes, and what it does not.

use std::process::Stdio;

use reattempt_testbed::http;
use serde_json::json;

use super::{document, end_of, has, http_server, program, with};

/// What is on standard error beside the answer of a document with an unknown member.
async fn said(log: &str) -> String {
    let server = http_server(http::Step::status(503)).await;
    let document = document("http", &server.uri(), json!([{"path": "/"}]));
    let document = with(document, "unknown", json!(1)).to_string();
    let mut program = program("call --json");
    program.env("RUST_LOG", log).stdin(Stdio::piped());
    let ended = end_of(program.spawn().unwrap(), &document).await;
    let answers = ended.out.lines().count();
    assert_eq!((ended.status, answers), (Some(0), 1), "{}", ended.err);
    ended.err
}

const WARNING: &str = "reattempt call: warning: $.unknown: unknown field, ignored\n";

#[tokio::test]
async fn no_filter_of_the_log_hides_a_document_s_warnings() {
    for log in ["off", "error", "warn"] {
        has(&said(log).await, [WARNING]);
    }
}

#[tokio::test]
async fn a_log_of_attempts_that_fail_can_be_had() {
    let said = said("reattempt=debug").await;
    has(&said, [WARNING, "HTTP_SERVICE_UNAVAILABLE"]);
}

#[tokio::test]
async fn a_filter_that_cannot_be_used_is_said() {
    let said = said("reattempt=nonsense").await;
    assert!(
        said.starts_with("reattempt: RUST_LOG is ignored: "),
        "{said}"
    );
    let (_, rest) = said.split_once('\n').unwrap();
    assert_eq!(rest, WARNING);
}
