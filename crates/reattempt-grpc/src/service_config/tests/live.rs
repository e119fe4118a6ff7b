//! A21, R25: a config that is replaced while calls are in progress.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use reattempt::throttle::Settled;
use reattempt::{Failure, OnDeadline, Recovery, RetryThrottle, Route, RoutePolicy, Stage};

use crate::reasons::GRPC_UNAVAILABLE;
use crate::service_config::{LearnedDelay, LiveServiceConfig, Options};
use crate::{Code, MethodPolicy};

fn throttled(max: u32) -> String {
    format!(r#"{{"retryThrottling":{{"maxTokens":{max},"tokenRatio":0.5}}}}"#)
}

fn timed(seconds: u32, rest: &str) -> String {
    format!(r#"{{"methodConfig":[{{"name":[{{}}],"timeout":"{seconds}s"}}]{rest}}}"#)
}

/// The policy of a call that starts now.
fn policy(live: &LiveServiceConfig) -> Arc<RoutePolicy> {
    let request = Request::post("http://h/a.B/C").body(()).unwrap();
    live.route(&request).unwrap()
}

fn fail(policy: &RoutePolicy, times: u32) {
    let failure = Failure::new(GRPC_UNAVAILABLE, Stage::Response);
    let throttle = policy.throttle().unwrap();
    (0..times).for_each(|_| throttle.settled(Settled::Failure(&failure)));
}

fn tokens(policy: &RoutePolicy) -> Option<u64> {
    policy.throttle()?.milli_tokens()
}

fn limit(policy: &RoutePolicy) -> Option<u64> {
    policy.timeout().map(|limit| limit.as_secs())
}

/// R25
#[test]
fn an_update_keeps_the_fraction_to_which_the_bucket_is_filled() {
    let live = LiveServiceConfig::default();
    live.update(&throttled(4)).unwrap();
    fail(&policy(&live), 1);
    live.update(&throttled(10)).unwrap();
    assert_eq!(tokens(&policy(&live)), Some(7_500));
    live.update(&throttled(10)).unwrap();
    assert_eq!(tokens(&policy(&live)), Some(7_500), "the same again");
}

/// R25
#[test]
fn a_text_that_cannot_be_used_changes_nothing() {
    let live = LiveServiceConfig::default();
    live.update(&timed(
        2,
        r#","retryThrottling":{"maxTokens":4,"tokenRatio":0.5}"#,
    ))
    .unwrap();
    fail(&policy(&live), 1);
    let before = live.load();
    // Valid numbers for the bucket, and a fault elsewhere.
    let bad = r#"{"retryThrottling":{"maxTokens":1000,"tokenRatio":1},"methodConfig":{}}"#;
    let refused = live.update(bad).unwrap_err();
    assert_eq!(refused.faults()[0].path, "$.methodConfig");
    assert!(Arc::ptr_eq(&before, &live.load()));
    assert_eq!(tokens(&policy(&live)), Some(3_000));
    fail(&policy(&live), 1);
    assert_eq!(
        tokens(&policy(&live)),
        Some(2_000),
        "still counting in fours"
    );
}

/// R9, R25
#[test]
fn a_call_keeps_its_policy_and_counts_in_the_bucket_of_the_name() {
    let live = LiveServiceConfig::default();
    live.update(&timed(
        2,
        r#","retryThrottling":{"maxTokens":4,"tokenRatio":0.5}"#,
    ))
    .unwrap();
    let earlier = policy(&live);
    live.update(&timed(
        9,
        r#","retryThrottling":{"maxTokens":100,"tokenRatio":0.5}"#,
    ))
    .unwrap();
    let later = policy(&live);
    assert_eq!((limit(&earlier), limit(&later)), (Some(2), Some(9)));
    fail(&earlier, 1);
    assert_eq!(tokens(&later), Some(99_000));
    assert_eq!(tokens(&earlier), Some(99_000));
}

/// R25: one bucket per server name, shared by all clones of the handle.
#[test]
fn clones_share_config_and_bucket_and_another_name_has_its_own() {
    let live = LiveServiceConfig::default();
    let (one, other) = (live.clone(), live.clone());
    one.update(&throttled(4)).unwrap();
    fail(&policy(&other), 2);
    assert_eq!(tokens(&policy(&one)), Some(2_000));
    assert!(!policy(&one).throttle().unwrap().allows(None));

    let elsewhere = LiveServiceConfig::default();
    elsewhere.update(&throttled(4)).unwrap();
    assert_eq!(tokens(&policy(&elsewhere)), Some(4_000));
}

/// R25
#[test]
fn a_config_without_throttling_suspends_the_bucket() {
    let live = LiveServiceConfig::default();
    live.update(&throttled(4)).unwrap();
    let earlier = policy(&live);
    fail(&earlier, 1);
    live.update("{}").unwrap();
    assert_eq!(tokens(&policy(&live)), None);
    assert!(live.load().throttle().is_none());
    fail(&earlier, 1);
    live.update(&throttled(100)).unwrap();
    assert_eq!(
        tokens(&policy(&live)),
        Some(50_000),
        "what was still in flight has counted"
    );
}

#[test]
fn without_a_config_calls_are_neither_retried_nor_hedged() {
    let live = LiveServiceConfig::default();
    assert!(matches!(policy(&live).recovery(), Recovery::None));
    assert_eq!(
        (limit(&policy(&live)), tokens(&policy(&live))),
        (None, None)
    );
    assert!(live.update("{").is_err());
    assert!(matches!(policy(&live).recovery(), Recovery::None));
}

/// A21: without a config from the resolver the default applies; an invalid one does not restore it.
#[test]
fn the_default_config_applies_while_there_is_no_other() {
    let rest = r#","retryThrottling":{"maxTokens":4,"tokenRatio":0.5}"#;
    let live = LiveServiceConfig::with_default(&timed(3, rest), Options::new()).unwrap();
    assert_eq!(limit(&policy(&live)), Some(3));
    fail(&policy(&live), 1);
    live.update(&timed(5, "")).unwrap();
    assert_eq!(
        (limit(&policy(&live)), tokens(&policy(&live))),
        (Some(5), None)
    );
    assert!(live.update("[]").is_err());
    assert_eq!(limit(&policy(&live)), Some(5), "the last good one stays");
    live.use_default();
    assert_eq!(limit(&policy(&live)), Some(3));
    assert_eq!(tokens(&policy(&live)), Some(3_000));
    assert!(LiveServiceConfig::with_default("[]", Options::new()).is_err());
}

#[test]
fn options_hold_for_every_update() {
    let policy_of_six = r#"{"methodConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":6}}]}"#;
    let options = Options::new()
        .max_attempts_limit(8)
        .on_deadline(OnDeadline::GiveUp);
    let live = LiveServiceConfig::new(options);
    let gives_up = |live: &LiveServiceConfig| match policy(live).recovery() {
        Recovery::Retry(strategy) => {
            (strategy.max_attempts(), strategy.on_deadline()) == (Some(1), Some(OnDeadline::GiveUp))
        }
        _ => false,
    };
    assert!(gives_up(&live), "also where there is no policy");
    let warnings = live.update(policy_of_six).unwrap();
    assert!(!warnings.is_empty(), "the update returns them");
    let policy = policy(&live);
    let Recovery::Hedge(hedge) = policy.recovery() else {
        panic!()
    };
    assert_eq!(
        (hedge.max_attempts(), hedge.delay().fixed()),
        (6, Some(Duration::ZERO))
    );
}

/// A6, Disabling Retries
#[test]
fn without_retries_the_rest_of_the_config_stays() {
    let rest = r#","retryThrottling":{"maxTokens":4,"tokenRatio":0.5}"#;
    let text = |policy: &str| {
        let entry = r#""name":[{}],"timeout":"2s","waitForReady":true,"maxRequestMessageBytes":9"#;
        format!(r#"{{"methodConfig":[{{{entry},{policy}}}]{rest}}}"#)
    };
    let live = LiveServiceConfig::new(Options::new().retries(false));
    for policy in [
        r#""hedgingPolicy":{"maxAttempts":3,"nonFatalStatusCodes":[14]}"#,
        r#""retryPolicy":{"maxAttempts":3,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,
        "retryableStatusCodes":[14]}"#,
    ] {
        live.update(&text(policy)).unwrap();
        let config = Arc::clone(live.load().method("/a.B/C"));
        assert!(matches!(config.policy.recovery(), Recovery::None));
        let data = config.policy.data::<MethodPolicy>().unwrap();
        assert!(data.retryable.contains(Code::Unavailable), "counts");
        assert_eq!(config.policy.timeout(), Some(Duration::from_secs(2)));
        assert_eq!(config.wait_for_ready, Some(true));
        assert_eq!(config.max_request_message_bytes, Some(9));
        assert_eq!(tokens(&config.policy), Some(4_000));
    }
    let invalid = live.update(&text(r#""hedgingPolicy":{"maxAttempts":1}"#));
    assert!(invalid.is_err(), "validated all the same");
}

#[test]
fn an_update_keeps_what_hedges_learned() {
    let text = |attempts: u32| {
        format!(
            r#"{{"methodConfig":[{{"name":[{{}},{{"service":"a.B"}}],"hedgingPolicy":{{"maxAttempts":{attempts}}}}}]}}"#
        )
    };
    let options = Options::new().hedge_delay(LearnedDelay::ExtraLoad(2.0));
    let live = LiveServiceConfig::new(options);
    let warnings = live.update(&text(2)).unwrap();
    // The share bounds no hedge that a failure causes.
    let what: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert!(
        what.len() == 1 && what[0].contains("no retryThrottling"),
        "{what:?}"
    );
    let delay_of = |path: &str| match live.load().method(path).policy.recovery() {
        Recovery::Hedge(hedge) => (hedge.max_attempts(), Arc::clone(hedge.delay())),
        other => panic!("{other:?}"),
    };
    let (before, other) = (delay_of("/a.B/C"), delay_of("/x.Y/Z"));
    assert!(before.1.learns());
    assert!(!Arc::ptr_eq(&before.1, &other.1), "each entry by itself");
    live.update(&text(3)).unwrap();
    let after = delay_of("/a.B/C");
    assert!((before.0, after.0) == (2, 3) && Arc::ptr_eq(&before.1, &after.1));
}

/// Under concurrent updates each call sees one complete config, and the bucket loses no count.
#[test]
fn updates_calls_and_counting_go_on_at_once() {
    let live = LiveServiceConfig::default();
    let of = |n: u32| {
        timed(
            n,
            &format!(r#","retryThrottling":{{"maxTokens":{n},"tokenRatio":1}}"#),
        )
    };
    live.update(&of(1000)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..100 {
                    // Invalid texts in between.
                    let _ = live.update(&if n % 3 == 0 {
                        of(1001)
                    } else {
                        of(1000 - n % 2)
                    });
                }
                live.update(&of(1000)).unwrap();
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let policy = policy(&live);
                    assert!(matches!(limit(&policy), Some(999 | 1000)));
                    fail(&policy, 1);
                    policy.throttle().unwrap().settled(Settled::Success);
                }
            });
        }
    });
    // As many successes as failures: only fractions of a milli-token are lost to rounding.
    let left = tokens(&policy(&live)).unwrap();
    assert!((990_000..=1_000_000).contains(&left), "{left}");
}
