use std::collections::BTreeMap;

use super::*;
use serde_json::{Value, json};

fn of(document: Value) -> Result<Document, Faults> {
    checked(document.to_string().as_bytes())
}

fn checked(text: &[u8]) -> Result<Document, Faults> {
    let document = Document::parse(text);
    document.found().check(Some(document))
}

#[test]
fn a_member_is_kept_as_it_was_written() {
    let text = br#"{"target": "h:1", "calls": [], "policy": {"a": 1.0, "a": 2}}"#;
    let mut document = checked(text).unwrap();
    let policy = document.rest.text("policy");
    assert_eq!(policy.as_deref(), Some(r#"{"a": 1.0, "a": 2}"#));
    assert_eq!(document.rest.text("other"), None);
}

#[test]
fn what_no_value_can_hold_is_for_a_policys_own_reader() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    for odd in ["1e999", deep.as_str()] {
        let text = format!(r#"{{"target": "h:1", "calls": [], "policy": {odd}}}"#);
        let mut document = checked(text.as_bytes()).unwrap();
        assert_eq!(document.rest.text("policy").as_deref(), Some(odd));
        let text = text.replace("policy", "seed");
        let fault = checked(text.as_bytes()).unwrap_err().listed();
        assert!(fault.starts_with("$.seed: "), "{fault}");
        // A position would be that within the member.
        assert!(!fault.contains(" at line "), "{fault}");
    }
}

#[test]
fn a_time_beyond_what_can_be_said_is_the_longest() {
    for long in ["1e300", "18446744073709551616000000"] {
        let millis: Millis = serde_json::from_str(long).unwrap();
        assert!(millis.0 >= Duration::from_secs(u64::MAX / 1000), "{long}");
    }
}

#[test]
fn the_defaults_are_the_contracts() {
    let document =
        of(json!({"target": "h:1", "calls": [{"call": "a", "timeout_ms": null}]})).unwrap();
    assert_eq!(document.protocol, Some(Protocol::Grpc));
    assert_eq!(document.concurrency, Concurrency::Sequential);
    assert_eq!(document.linger, Duration::from_millis(30));
    assert_eq!(document.setup.on_deadline, None);
    assert_eq!(document.setup.on_deadline_or_cap(), OnDeadline::Cap);
    let (head, _) = &document.calls[0];
    assert_eq!(head.call, "a");
    assert_eq!(head.timeout, None);
    assert_eq!(head.start_delay, Duration::ZERO);
}

#[test]
fn connections_stay_open_for_an_hour_at_most() {
    let linger = |millis: f64| of(json!({"target": "h:1", "calls": [], "linger_ms": millis}));
    assert_eq!(linger(3.6e6).unwrap().linger, Duration::from_secs(3600));
    let fault = linger(1e30).unwrap_err().listed();
    assert_eq!(fault, "$.linger_ms: must be at most 3600000, an hour");
}

#[test]
fn a_text_of_the_wrong_type_is_not_repeated() {
    let secret = json!("hunter2\", expected hunter2");
    let document = json!({
        "target": "h:1", "calls": secret, "linger_ms": secret, "headers": secret,
    });
    let mut document = Document::parse(document.to_string().as_bytes());
    let headers = document
        .rest
        .optional::<BTreeMap<String, OneOrMany>>("headers");
    assert_eq!(headers, None);
    let faults = document.found().check(None::<()>).unwrap_err();
    let expected = "$.calls: invalid type: string, expected a sequence; \
        $.linger_ms: invalid type: string, expected f64; \
        $.headers: invalid type: string, expected a map";
    assert_eq!(faults.listed(), expected);
}

#[test]
fn all_faults_are_reported_at_once() {
    let text = br#"{"protocol": "smtp", "seed": 1, "seed": 2, "linger_ms": "long", "calls": [
        {"timeout_ms": -1, "start_delay_ms": []}, 7, {"call": 1}]}"#;
    let faults = checked(text).unwrap_err();
    let paths: Vec<_> = faults.faults().iter().map(|fault| &*fault.path).collect();
    assert_eq!(
        paths,
        [
            "$.seed",
            "$.calls[1]",
            "$.calls[0].timeout_ms",
            "$.calls[0].start_delay_ms",
            "$.calls[2].call",
            "$.protocol",
            "$.linger_ms",
            "$.target",
        ]
    );
}

#[test]
fn a_duplicate_member_is_a_fault_at_any_depth() {
    let text = br#"{"target": "h:1", "calls": [{"options": {"a": [{"b": 1, "b": 2}]}}]}"#;
    let document = Document::parse(text);
    let found = document.found();
    let (_, mut call) = document.calls.into_iter().next().unwrap();
    let read = call.optional::<Value>("options");
    let faults = found.check(read).unwrap_err();
    assert_eq!(faults.listed(), "$.calls[0].options.a[0].b: is there twice");
}
