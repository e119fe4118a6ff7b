mod choices;
#[cfg(feature = "tokio")]
mod follow;
mod live;
mod parsing_table;
mod reference;
mod warnings;

use std::time::Duration;

use reattempt::backoff::Jitter;
use reattempt::throttle::Settled;
use reattempt::{
    Decision, Failure, HedgePolicy, Recovery, RetryStrategy, RetryThrottle, RetryView, Stage,
};

use super::*;
use crate::reasons::GRPC_UNAVAILABLE;
use crate::{Code, CodeSet, MethodPolicy};

const RETRY: &str = r#""maxAttempts":3,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]"#;

/// The faults of a config, as `path: what` lines.
fn faults(text: &str) -> Vec<String> {
    match ServiceConfig::parse(text) {
        Ok(_) => Vec::new(),
        Err(invalid) => invalid.faults().iter().map(ToString::to_string).collect(),
    }
}

/// True if a retry policy with this member replaced is accepted.
fn takes_retry(member: &str, value: &str) -> bool {
    let policy: Vec<String> = [
        ("maxAttempts", "3"),
        ("initialBackoff", "\"0.1s\""),
        ("maxBackoff", "\"1s\""),
        ("backoffMultiplier", "2"),
        ("retryableStatusCodes", "[14]"),
    ]
    .iter()
    .map(|(name, usual)| format!("\"{name}\":{}", if *name == member { value } else { usual }))
    .collect();
    takes_entry(&format!(r#""retryPolicy":{{{}}}"#, policy.join(",")))
}

fn takes_entry(members: &str) -> bool {
    faults(&for_all(members)).is_empty()
}

/// A config with one entry, for all methods.
fn for_all(members: &str) -> String {
    format!(r#"{{"methodConfig":[{{"name":[{{}}],{members}}}]}}"#)
}

fn retry_of(config: &ServiceConfig, path: &str) -> Option<u32> {
    match config.method(path).policy.recovery() {
        Recovery::Retry(strategy) => strategy.max_attempts(),
        _ => None,
    }
}

fn hedge_of(members: &str, options: &Options) -> (Arc<HedgePolicy>, CodeSet) {
    let text = for_all(&format!(r#""hedgingPolicy":{{{members}}}"#));
    let config = ServiceConfig::parse_with(&text, options).unwrap();
    let policy = &config.method("/a/b").policy;
    let Recovery::Hedge(hedge) = policy.recovery() else {
        panic!()
    };
    let codes = policy.data::<MethodPolicy>().unwrap().retryable;
    (Arc::clone(hedge), codes)
}

#[test]
fn a_clone_shares_its_tables_and_warnings() {
    let text = r#"{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "1s"}],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}, "colour": "red"}"#;
    let config = ServiceConfig::parse(text).unwrap();
    let clone = config.clone();
    assert!(Arc::ptr_eq(&config.tables, &clone.tables));
    assert_eq!(config.warnings().len(), 1);
    assert!(std::ptr::eq(config.warnings(), clone.warnings()));
    let bucket = |config: &ServiceConfig| Arc::clone(config.throttle().unwrap());
    assert!(Arc::ptr_eq(&bucket(&config), &bucket(&clone)));
    let shown = format!("{clone:?}");
    assert!(shown.starts_with(r#"ServiceConfig { methods: {}, services: {"a.B": "#));
}

/// R1
#[test]
fn max_attempts_is_an_integer_above_one_capped_by_the_limit() {
    for good in ["2", "3.0", "3e0", "6", "1000000000000000000000"] {
        assert!(takes_retry("maxAttempts", good), "{good}");
    }
    for bad in ["1", "0", "-3", "2.5", "\"4\"", "null", "true", "[3]"] {
        assert!(!takes_retry("maxAttempts", bad), "{bad}");
    }
    let ten = RETRY.replace(":3,", ":10,");
    let text = for_all(&format!(r#""retryPolicy":{{{ten}}}"#));
    let config = ServiceConfig::parse(&text).unwrap();
    assert_eq!(retry_of(&config, "/a/b"), Some(5));
    let wide = Options::new().max_attempts_limit(8);
    let config = ServiceConfig::parse_with(&text, &wide).unwrap();
    assert_eq!(retry_of(&config, "/a/b"), Some(8));
}

/// R2
#[test]
fn backoffs_are_strict_durations_above_zero() {
    for good in ["\"0.1s\"", "\"0.000000001s\"", "\"315576000000s\""] {
        for member in ["initialBackoff", "maxBackoff"] {
            assert!(takes_retry(member, good), "{member} {good}");
        }
    }
    for bad in [
        "\"0s\"",
        "\"-1s\"",
        "\".5s\"",
        "\"1.s\"",
        "\"+1s\"",
        "\" 1s\"",
        "\"1 s\"",
        "\"--1s\"",
        "\"1.-5s\"",
        "\"1.0000000001s\"",
        "\"315576000001s\"",
        "1",
        "null",
    ] {
        for member in ["initialBackoff", "maxBackoff"] {
            assert!(!takes_retry(member, bad), "{member} {bad}");
        }
    }
}

/// R3
#[test]
fn the_multiplier_is_a_number_above_zero() {
    for good in ["0.5", "1", "2e1", "1e308"] {
        assert!(takes_retry("backoffMultiplier", good), "{good}");
    }
    for bad in ["0", "0.0e5", "-1", "\"2\"", "null", "1e400", "1e-400"] {
        assert!(!takes_retry("backoffMultiplier", bad), "{bad}");
    }
}

/// R4
#[test]
fn codes_are_numbers_or_names_in_any_case() {
    for good in [
        "[14]",
        "[14.0]",
        "[\"UNAVAILABLE\"]",
        "[\"unavailable\",\"Aborted\",1]",
        "[14,14]",
    ] {
        assert!(takes_retry("retryableStatusCodes", good), "{good}");
    }
    for bad in [
        "[]",
        "[0]",
        "[\"OK\"]",
        "[17]",
        "[-1]",
        "[\"BOGUS\"]",
        "[\"14\"]",
        "[14.5]",
        "[\"CANCELED\"]",
        "[null]",
        "\"UNAVAILABLE\"",
        "[1e30]",
    ] {
        assert!(!takes_retry("retryableStatusCodes", bad), "{bad}");
    }
}

/// R5
#[test]
fn hedging_needs_only_its_number_of_attempts() {
    let (hedge, codes) = hedge_of(r#""maxAttempts":3"#, &Options::new());
    assert_eq!(hedge.max_attempts(), 3);
    assert_eq!(hedge.delay().fixed(), Some(Duration::ZERO));
    assert!(codes.is_empty(), "every error is fatal");
    let members = r#""maxAttempts":9,"hedgingDelay":"0.5s","nonFatalStatusCodes":["internal",14]"#;
    let (hedge, codes) = hedge_of(members, &Options::new());
    assert_eq!(hedge.max_attempts(), 5);
    assert_eq!(hedge.delay().fixed(), Some(Duration::from_millis(500)));
    assert_eq!(codes, CodeSet::of(&[Code::Internal, Code::Unavailable]));
    let (hedge, _) = hedge_of(members, &Options::new().max_attempts_limit(7));
    assert_eq!(hedge.max_attempts(), 7);
    for bad in [
        r#""hedgingDelay":"1s""#,
        r#""maxAttempts":1"#,
        r#""maxAttempts":2,"hedgingDelay":"-1s""#,
        r#""maxAttempts":2,"hedgingDelay":5"#,
        r#""maxAttempts":2,"nonFatalStatusCodes":"U""#,
        r#""maxAttempts":2,"nonFatalStatusCodes":["OK"]"#,
    ] {
        let hedging = format!(r#""hedgingPolicy":{{{bad}}}"#);
        assert!(!takes_entry(&hedging), "{bad}");
    }
}

/// R6
#[test]
fn only_one_of_both_policies_may_be_set() {
    let both = format!(r#""retryPolicy":{{{RETRY}}},"hedgingPolicy":{{"maxAttempts":2}}"#);
    assert!(!takes_entry(&both));
    let with_null = format!(r#""retryPolicy":{{{RETRY}}},"hedgingPolicy":null"#);
    assert!(takes_entry(&with_null), "null is absent");
}

/// R7, R8
#[test]
fn throttling_has_whole_tokens_and_a_ratio_cut_to_thousandths() {
    let bucket = |tokens: &str, ratio: &str| {
        let text =
            format!(r#"{{"retryThrottling":{{"maxTokens":{tokens},"tokenRatio":{ratio}}}}}"#);
        ServiceConfig::parse(&text).ok()?.throttle().cloned()
    };
    for good in ["1", "10.0", "1000", "1e1"] {
        assert!(bucket(good, "0.1").is_some(), "{good}");
    }
    for bad in ["0", "1001", "0.5", "2.5", "-1", "\"10\"", "null"] {
        assert!(bucket(bad, "0.1").is_none(), "{bad}");
    }
    for bad in ["0", "0.0004", "-0.1", "\"0.1\"", "null"] {
        assert!(bucket("10", bad).is_none(), "{bad}");
    }
    for (ratio, milli) in [("0.5466", 546), ("1", 1000), ("1e-1", 100), ("0.251", 251)] {
        let bucket = bucket("10", ratio).unwrap();
        let failure = Failure::new(GRPC_UNAVAILABLE, Stage::Response);
        (0..3).for_each(|_| bucket.settled(Settled::Failure(&failure)));
        bucket.settled(Settled::Success);
        assert_eq!(bucket.milli_tokens(), Some(7_000 + milli), "{ratio}");
    }
}

/// R9
#[test]
fn the_most_special_entry_applies_and_levels_do_not_merge() {
    let entry = |name: &str, attempts: u32| {
        let policy = RETRY.replace(":3,", &format!(":{attempts},"));
        format!(r#"{{"name":[{name}],"timeout":"{attempts}s","retryPolicy":{{{policy}}}}}"#)
    };
    let text = format!(
        r#"{{"methodConfig":[{},{},{},{{"name":[{{"service":"a.B","method":"Bare"}}]}}]}}"#,
        entry(r#"{"service":"a.B","method":"C"}"#, 2),
        entry(r#"{"service":"a.B"},{"service":"a.X","method":""}"#, 3),
        entry(r#"{"service":"","method":""}"#, 4)
    );
    let config = ServiceConfig::parse(&text).unwrap();
    assert_eq!(retry_of(&config, "/a.B/C"), Some(2));
    assert_eq!(retry_of(&config, "/a.B/D"), Some(3));
    assert_eq!(retry_of(&config, "/a.X/D"), Some(3));
    assert_eq!(retry_of(&config, "/z.Z/C"), Some(4));
    assert_eq!(retry_of(&config, "/a.B/Bare"), None);
    assert_eq!(config.method("/a.B/Bare").policy.timeout(), None);
    let of_service = config.method("/a.B/D").policy.timeout();
    assert_eq!(of_service, Some(Duration::from_secs(3)));
    // Behind the prefix of a proxy, unless the whole path has an entry.
    assert_eq!(retry_of(&config, "/api/v1/a.B/C"), Some(2));
    assert_eq!(retry_of(&config, "/api/a.X/D"), Some(3));
    assert_eq!(retry_of(&config, "/api/z.Z/C"), Some(4));
    let whole = text.replace("a.X", "api/a.B");
    let config = ServiceConfig::parse(&whole).unwrap();
    assert_eq!(retry_of(&config, "/api/a.B/C"), Some(3));
}

#[test]
fn a_name_twice_is_a_fault_also_in_another_entry() {
    for names in [
        r#"[{},{}]"#,
        r#"[{"service":"a"},{"service":"a","method":""}]"#,
        r#"[{"service":"a","method":"m"},{"method":"m","service":"a"}]"#,
        r#"[{"service":"","method":"m"}]"#,
        r#"[{"method":"m"}]"#,
        r#"[{"service":1}]"#,
        r#"[1]"#,
        r#"{}"#,
    ] {
        let text = format!(r#"{{"methodConfig":[{{"name":{names}}}]}}"#);
        assert!(!faults(&text).is_empty(), "{names}");
    }
    let across = r#"{"methodConfig":[{"name":[{"service":"a"}]},{"name":[{"service":"a"}]}]}"#;
    let fault = "$.methodConfig[1].name[0]: names the same calls as $.methodConfig[0].name[0]";
    assert_eq!(faults(across), [fault]);
}

#[test]
fn every_fault_is_reported_at_once_with_its_path() {
    let text = r#"{"methodConfig":[
        {"name":[{}],"retryPolicy":{"maxAttempts":1,"initialBackoff":"0s","maxBackoff":"1s","retryableStatusCodes":["NO",14]}},
        {"name":[{"service":"a"}],"timeout":"-1s","waitForReady":1}],
        "retryThrottling":{"maxTokens":1001}}"#;
    let faults = faults(text);
    let paths = faults.iter().map(|fault| fault.split(':').next().unwrap());
    assert!(
        paths.eq([
            "$.methodConfig[0].retryPolicy.maxAttempts",
            "$.methodConfig[0].retryPolicy.initialBackoff",
            "$.methodConfig[0].retryPolicy.backoffMultiplier",
            "$.methodConfig[0].retryPolicy.retryableStatusCodes[0]",
            "$.methodConfig[1].timeout",
            "$.methodConfig[1].waitForReady",
            "$.retryThrottling.maxTokens",
            "$.retryThrottling.tokenRatio",
        ]),
        "{faults:?}"
    );
    assert!(faults[0].ends_with("must be an integer greater than 1, got 1"));
    assert!(faults[2].ends_with("is missing: a number is needed"));
}

#[test]
fn unknown_fields_warn_and_duplicate_fields_are_faults() {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],"RetryPolicy":{{}},"retryPolicy":{{{RETRY},"perAttemptRecvTimeout":"1s"}}}}],"new":1}}"#
    );
    let config = ServiceConfig::parse(&text).unwrap();
    let paths = config.warnings().iter().map(|warning| &*warning.path);
    assert!(paths.eq([
        "$.new",
        "$.methodConfig[0].RetryPolicy",
        "$.methodConfig[0].retryPolicy.perAttemptRecvTimeout"
    ]));
    let (wait, limit) = (r#""waitForReady":true"#, r#""maxRequestMessageBytes":1024"#);
    assert!(!takes_entry(&format!("{wait},{wait}")));
    assert!(takes_entry(&format!("{wait},{limit}")));
}

#[test]
fn what_is_no_object_or_no_json_is_refused() {
    for bad in [
        "",
        "[]",
        "1",
        "{",
        r#"{"methodConfig":{}}"#,
        r#"{"methodConfig":[1]}"#,
        "{}x",
    ] {
        assert!(!faults(bad).is_empty(), "{bad}");
    }
    assert!(faults("{}").is_empty());
}

/// R11, R12
#[test]
fn delays_grow_from_the_first_are_capped_and_never_overflow() {
    let ms = Duration::from_millis;
    let policy = |initial, max, factor| {
        RetryPolicy::new(5, initial, max, factor, CodeSet::EMPTY).jitter(Jitter::None)
    };
    let usual = policy(ms(100), ms(300), 2.0);
    let delays = [0, 1, 2, 3].map(|n| usual.delay_after(n));
    assert_eq!(delays, [100, 200, 300, 300].map(ms));
    let first = policy(ms(1000), ms(100), 2.0).delay_after(0);
    assert_eq!(first, ms(100), "it is capped too");
    let shrinking = policy(ms(1000), ms(600), 0.5);
    let delays = [0, 1, 2].map(|n| shrinking.delay_after(n));
    assert_eq!(delays, [600, 500, 250].map(ms));
    let longest = Duration::from_secs(315_576_000_000);
    let wild = policy(longest, Duration::MAX, f64::MAX);
    assert_eq!(wild.delay_after(u32::MAX), Duration::MAX);
}

/// A strategy that wraps it may forward only its decisions.
#[tokio::test(start_paused = true)]
async fn its_decisions_alone_end_after_its_attempts() {
    let failure = Failure::new(GRPC_UNAVAILABLE, Stage::Response);
    let ms = Duration::from_millis;
    let policy = RetryPolicy::new(3, ms(1), ms(1), 1.0, CodeSet::EMPTY);
    let now = tokio::time::Instant::now().into_std();
    let decided = |retries| policy.decide(&RetryView::new(&failure, now).retries(retries));
    assert!(matches!(decided(1), Decision::After(_)));
    assert!(matches!(decided(2), Decision::Exhausted));
}

/// A comparison of each member with all earlier ones took minutes.
#[test]
#[allow(clippy::disallowed_methods, reason = "how long the processor takes")]
fn an_object_of_very_many_members_is_read_in_no_time() {
    let members: Vec<_> = (0..200_000).map(|n| format!("\"{n:06}\":0")).collect();
    let text = format!("{{{}}}", members.join(","));
    let began = std::time::Instant::now();
    let config = ServiceConfig::parse(&text).unwrap();
    assert_eq!(config.warnings().len(), 10_001);
    assert!(began.elapsed() < Duration::from_secs(10));
}
