//! What `RUST_LOG` changes, and what it does not.

use reattempt_testbed::http;
use serde_json::json;

use super::{document, run_logged, text, with};

/// The call of a document with an unknown member, and what is on standard error.
async fn said(log: &str) -> String {
    let server = http::Server::start(http::Step::status(503)).await.unwrap();
    let document = document("http", &server.uri(), json!([{"path": "/"}]));
    let document = with(document, "unknown", json!(1)).to_string();
    let output = run_logged(Some(log), &["call", "--json"], document).await;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    text(&output.stderr)
}

const WARNING: &str = "reattempt call: warning: $.unknown: unknown field, ignored\n";

#[tokio::test]
async fn no_filter_of_the_log_hides_a_document_s_warnings() {
    for log in ["off", "error", "warn"] {
        let said = said(log).await;
        assert!(said.contains(WARNING), "{log}: {said}");
    }
}

#[tokio::test]
async fn a_log_of_attempts_that_fail_can_be_had() {
    let said = said("reattempt=debug").await;
    assert!(said.contains(WARNING), "{said}");
    assert!(said.contains("HTTP_SERVICE_UNAVAILABLE"), "{said}");
}

#[tokio::test]
async fn a_filter_that_cannot_be_used_is_said() {
    let said = said("reattempt=nonsense").await;
    let (first, rest) = said.split_once('\n').unwrap();
    assert!(
        first.starts_with("reattempt: RUST_LOG is ignored: "),
        "{said}"
    );
    assert_eq!(rest, WARNING);
}
