//! Warnings: settings that are valid but have no effect or can amplify load.

use crate::service_config::{LiveServiceConfig, Options, ServiceConfig};

fn warnings_with(text: &str, options: &Options) -> Vec<String> {
    let config = ServiceConfig::parse_with(text, options).unwrap();
    let told = config.warnings().iter().map(|warning| {
        let no_effect = warning.what.contains("no effect") || warning.what.contains("for no call");
        assert_eq!(warning.is_advice(), !no_effect, "{warning}");
        warning.to_string()
    });
    told.collect()
}

fn entry(members: &str, rest: &str) -> Vec<String> {
    let text = format!(r#"{{"methodConfig":[{{"name":[{{}}],{members}}}]{rest}}}"#);
    warnings_with(&text, &Options::new())
}

fn retry(attempts: u32, initial: &str, max: &str) -> String {
    format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"{initial}","maxBackoff":"{max}",
        "backoffMultiplier":2,"retryableStatusCodes":[14]}}"#
    )
}

/// The entry has one warning, at this place.
fn is_one(told: &[String], at: &str, what: &str) {
    assert_eq!(told, [format!("$.methodConfig[0]{at}: {what}")]);
}

const THROTTLED: &str = r#","retryThrottling":{"maxTokens":10,"tokenRatio":0.1}"#;

#[test]
fn policies_that_can_amplify_load_are_warned_of() {
    let hedges = r#""hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.5s"}"#;
    let amplified = "can amplify load: a slow or failing server gets up to 3 times its calls, and no \
                     retryThrottling holds them back";
    is_one(&entry(hedges, ""), ".hedgingPolicy", amplified);
    assert_eq!(entry(hedges, THROTTLED), [""; 0]);
    for at_once in [
        r#""hedgingPolicy":{"maxAttempts":3}"#,
        r#""hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0s"}"#,
    ] {
        let amplified = "can amplify load: without a hedgingDelay all 3 attempts of every call go \
                         out at once";
        is_one(&entry(at_once, THROTTLED), ".hedgingPolicy", amplified);
        assert_eq!(entry(at_once, "").len(), 2);
    }
    let amplified = "can amplify load: a server that fails gets up to 4 times its calls, and no \
                     retryThrottling holds them back";
    let four = retry(4, "0.1s", "1s");
    is_one(&entry(&four, ""), ".retryPolicy", amplified);
    assert_eq!(entry(&retry(3, "0.1s", "1s"), ""), [""; 0]);
    assert_eq!(entry(&four, THROTTLED), [""; 0]);
}

#[test]
fn what_acts_otherwise_than_it_reads_is_warned_of() {
    let told = entry(&retry(6, "0.1s", "1s"), THROTTLED);
    let at = ".retryPolicy.maxAttempts";
    is_one(&told, at, "acts as 5, the most attempts of this client");
    let told = entry(&retry(2, "2s", "1s"), "");
    let at = ".retryPolicy.maxBackoff";
    is_one(&told, at, "is below initialBackoff, which it caps too");
    let told = entry(r#""timeout":"0s""#, "");
    is_one(&told, ".timeout", "ends every call before it begins");
    let told = warnings_with(r#"{"methodConfig":[{"timeout":"1s"}]}"#, &Options::new());
    is_one(&told, "", "has no name, so it is for no call");
    // A hedged call has its own limit.
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],"hedgingPolicy":{{"maxAttempts":20,"hedgingDelay":"1s"}}}}]{THROTTLED}}}"#
    );
    let told = warnings_with(&text, &Options::new().max_attempts_limit(100));
    let at = ".hedgingPolicy.maxAttempts";
    is_one(&told, at, "acts as 8, the most attempts of this client");
}

#[test]
fn a_back_off_that_is_missing_or_faulty_is_not_compared() {
    for bound in ["", r#""maxBackoff":"1m","#, r#""maxBackoff":null,"#] {
        let text = format!(
            r#"{{"methodConfig":[{{"name":[{{}}],"retryPolicy":{{"maxAttempts":2,"initialBackoff":"1s",{bound}
            "backoffMultiplier":2,"retryableStatusCodes":[14]}}}}]}}"#
        );
        let refused = ServiceConfig::parse(&text).unwrap_err();
        assert_eq!(refused.faults().len(), 1, "{refused}");
        assert_eq!(refused.warnings(), [], "{bound}");
    }
}

#[test]
fn what_the_client_below_must_do_is_warned_of() {
    let below = "has no effect here: put Backends or RoundRobin below the layer";
    let none = Options::new();
    let by_config = r#"{"loadBalancingConfig":[{"x":{}},{"round_robin":{}},{"pick_first":{}}]}"#;
    let by_policy = r#"{"loadBalancingPolicy":"ROUND_ROBIN"}"#;
    for (text, at) in [(by_config, "Config"), (by_policy, "Policy")] {
        let warned = format!("$.loadBalancing{at}: {below}");
        assert_eq!(warnings_with(text, &none), [warned]);
        let own = Options::new().load_balancing_policy("round_robin");
        assert_eq!(warnings_with(text, &own), [""; 0]);
    }
    for text in [
        r#"{"loadBalancingConfig":[{"x":{}},{"pick_first":{}},{"round_robin":{}}]}"#,
        r#"{"loadBalancingConfig":[],"loadBalancingPolicy":""}"#,
        r#"{"loadBalancingPolicy":"PICK_FIRST","healthCheckConfig":{}}"#,
    ] {
        assert_eq!(warnings_with(text, &none), [""; 0]);
    }
    let health = warnings_with(r#"{"healthCheckConfig":{"serviceName":""}}"#, &none);
    assert_eq!(health.len(), 1);
    let begins = "$.healthCheckConfig: has no effect here: ";
    assert!(health[0].starts_with(begins), "{health:?}");
}

#[test]
fn a_response_limit_beyond_tonics_own_is_advised_of() {
    assert_eq!(entry(r#""maxResponseMessageBytes":4194304"#, ""), [""; 0]);
    assert_eq!(entry(r#""maxRequestMessageBytes":4194305"#, ""), [""; 0]);
    let told = entry(r#""maxResponseMessageBytes":4194305"#, "");
    let above = "is above the limit of a tonic client by default, 4 MiB, beyond which it fails with \
                 OUT_OF_RANGE: set its max_decoding_message_size too";
    is_one(&told, ".maxResponseMessageBytes", above);
}

#[test]
fn a_slip_of_case_is_reported_with_the_name_that_is_meant() {
    let slips = r#"{"methodConfig":[{"name":[{}],"hedgingPolicy":{"MaxAttempts":3}}],"retry_throttling":{}}"#;
    let refused = ServiceConfig::parse(slips).unwrap_err();
    let lines = refused.warnings().iter().map(ToString::to_string);
    assert!(lines.eq([
        "$.retry_throttling: is not known and has no effect: write retryThrottling",
        "$.methodConfig[0].hedgingPolicy.MaxAttempts: is not known and has no effect: write maxAttempts",
    ]));
    assert_eq!(
        refused.faults()[0].to_string(),
        "$.methodConfig[0].hedgingPolicy.maxAttempts: is missing: an integer is needed \
         (there is \"MaxAttempts\": names must match exactly)"
    );
}

#[test]
fn a_throttle_of_the_options_replaces_the_configs() {
    use std::sync::Arc;
    let options = Options::new().throttle(Arc::new(reattempt::Governor::default()));
    let text = |rest: &str| {
        let retry = retry(4, "0.1s", "1s");
        format!(r#"{{"methodConfig":[{{"name":[{{}}],{retry}}}]{rest}}}"#)
    };
    let replaced = warnings_with(&text(THROTTLED), &options);
    assert_eq!(
        replaced,
        ["$.retryThrottling: has no effect, because the client's options have a throttle"]
    );
    assert_eq!(warnings_with(&text(""), &options), [""; 0]);
    let config = ServiceConfig::parse_with(&text(THROTTLED), &options).unwrap();
    assert!(config.throttle().is_none(), "a bucket that is not in force");
    let live = LiveServiceConfig::with_default(&text(THROTTLED), options).unwrap();
    assert!(live.load().throttle().is_none());
    live.update(&text(THROTTLED)).unwrap();
    assert!(live.load().throttle().is_none());
    assert!(live.load().method("/a.B/C").policy.throttle().is_some());
}

/// A config may come from a server, and its warnings are kept as long as it is.
#[test]
fn only_the_first_warnings_of_a_config_are_kept() {
    let unknown: Vec<_> = (0..10_002).map(|n| format!(r#""u{n}":1"#)).collect();
    let options = Options::new().log_warnings(false);
    let config =
        ServiceConfig::parse_with(&format!("{{{}}}", unknown.join(",")), &options).unwrap();
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 10_001);
    let last = warnings[10_000].to_string();
    assert_eq!(last, "$: has 2 more warnings than are listed");
}
