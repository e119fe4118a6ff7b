//! Malformed bodies.

use http::StatusCode;
use reattempt::Verdict;
use reattempt::reason::*;

use crate::service::HttpService;

/// C41 C43: a malformed error is not retried.
#[test]
fn a_doubtful_error_is_final_and_no_success() {
    let query = HttpService::query().with_current_server_codes();
    let verdict = |body: &str| query.verdict_on(StatusCode::OK, body.as_bytes());
    for error in [
        r#"{"code": "4040"}"#,
        r#"{"code": 4040.0}"#,
        r#"{"code": 4.04e3}"#,
        r#"{"code": 04040}"#,
        r#"{"code": 18446744073709551616}"#,
        r#"{"code": -4040}"#,
        r#"{"code": [4040]}"#,
        r#"{"code": null}"#,
        r#"{"code": 1, "retry": "true"}"#,
        r#"{"code": 1, "retry": 1}"#,
        r#"{"code": 1, "retry": [true]}"#,
        r#"{"code": 1, "retry": TRUE}"#,
        r#"{"code": 12016, "retry": true}"#,
        r#"{"reason": {"code": 4040, "retry": true}}"#,
        r#"{"msg": "\"code\": 4040, \"retry\": true}"}"#,
        r#"{"code": 5000, "msg": "x", "also": "queryport.indexNotFound"}"#,
        r#""4040""#,
        "4040",
        "null",
        "[{\"code\": 4040}]",
    ] {
        let body = format!("{{\"results\": [], \"errors\": [{error}, {{\"code\": 4040}}]}}");
        let verdict = verdict(&body);
        assert!(matches!(verdict, Verdict::Fatal(_)), "{error}: {verdict:?}");
    }
    for body in [
        r#"{"errors": []}"#,
        r#"{"errors": null}"#,
        r#"{"errors": {"code": 4040}}"#,
        r#"{"x": {"errors": [{"code": 4040}]}}"#,
        r#"{"results": [{"errors": [{"code": 4040}]}, "\"errors\": [{\"code\": 4040}]"]}"#,
        r#"[{"errors": [{"code": 4040}]}]"#,
        "",
    ] {
        assert_eq!(verdict(body), Verdict::Success, "{body}");
    }
    for body in [
        r#"{"errors": [], "errors": [{"code": 4040}]}"#,
        r#"{"\u0065rrors" : [ { "\u0063ode" : 4040 } ] }"#,
        "{\"errors\":[{\"code\":4040",
        "{\"errors\":[{\"code\":4040,",
        r#"{"errors": [{"code": 5000, "msg": "queryport.\u0069ndexNotFound"}]}"#,
    ] {
        let whole = verdict(body);
        let expected = if body.contains("5000") {
            QUERY_INDEX_NOT_FOUND
        } else {
            QUERY_PREPARED_STATEMENT_FAILURE
        };
        // A partial number may be the prefix of another.
        let half = body.ends_with('0');
        match whole {
            Verdict::Retry(failure) => assert!(!half && failure.reason == expected, "{body}"),
            Verdict::Fatal(_) => assert!(half, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}
