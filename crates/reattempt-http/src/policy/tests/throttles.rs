//! The retry budget among the throttles.

use reattempt::throttle::RatioBudget;

use super::*;

fn with_throttle(definition: &str) -> String {
    format!(
        r#"{{"default": {{"retry": {{}}, "throttle": "t"}}, "throttles": {{"t": {definition}}}}}"#
    )
}

#[test]
fn a_retry_budget_is_read_and_warned_of() {
    let full = r#"{"retryRatio": 0.25, "minPerSecond": 3, "window": "20s"}"#;
    for (definition, floor) in [(full, 60_000), (r#"{"retryRatio": 0.25}"#, 100_000)] {
        let text = with_throttle(definition);
        let table = table(&text);
        let budget = table.ratio_budget("t").unwrap();
        assert_eq!(budget.milli_tokens(), Some(floor));
        (0..1000).for_each(|_| budget.settled(Settled::Success));
        assert_eq!(budget.milli_tokens(), Some(250_000));
        assert!(table.throttle("t").is_none() && table.quota("t").is_none());
        assert_eq!(
            warnings(&text),
            [format!("$.throttles.t: {}", RatioBudget::WARNING)]
        );
    }
}

#[test]
fn its_faults_are_reported_with_their_paths() {
    let t = "$.throttles.t";
    let ratio = "must be a number from 0.001 to 1 (decimal places beyond 3 are dropped)";
    let other = "cannot be set together with";
    for (definition, expected) in [
        (
            r#"{"retryRatio": 1.001, "minPerSecond": -1, "window": "0.9s"}"#,
            vec![
                format!("{t}.retryRatio: {ratio}, got 1.001"),
                format!("{t}.minPerSecond: must be an integer from 0 to 1000000, got -1"),
                format!("{t}.window: must be a duration from \"1s\" to \"3600s\", got \"0.9s\""),
            ],
        ),
        (
            r#"{"retryRatio": 0.0009}"#,
            vec![format!("{t}.retryRatio: {ratio}, got 0.0009")],
        ),
        (
            r#"{"retryRatio": -0.2}"#,
            vec![format!("{t}.retryRatio: {ratio}, got -0.2")],
        ),
        (
            r#"{"window": "10s"}"#,
            vec![format!("{t}.retryRatio: is missing: a number is needed")],
        ),
        (
            r#"{"retryRatio": 0.2, "maxTokens": 10, "tokenRatio": 0.1}"#,
            vec![
                format!("{t}.maxTokens: {other} retryRatio, another kind of throttle"),
                format!("{t}.tokenRatio: {other} retryRatio, another kind of throttle"),
            ],
        ),
        (
            r#"{"preset": "aws-standard-2.1", "minPerSecond": 1}"#,
            vec![format!(
                "{t}.minPerSecond: {other} preset, which defines it"
            )],
        ),
    ] {
        assert_eq!(faults(&with_throttle(definition)), expected, "{definition}");
    }
}

#[test]
fn an_update_keeps_its_counts_and_changes_its_numbers() {
    let first = with_throttle(r#"{"retryRatio": 0.5, "minPerSecond": 0}"#);
    let live = LiveHttpPolicies::new(table(&first));
    let budget = Arc::clone(live.load().ratio_budget("t").unwrap());
    (0..10).for_each(|_| budget.settled(Settled::Success));
    assert!(budget.spend(None));
    live.update(&with_throttle(r#"{"retryRatio": 0.3, "minPerSecond": 0}"#))
        .unwrap();
    let same = Arc::clone(live.load().ratio_budget("t").unwrap());
    assert!(Arc::ptr_eq(&budget, &same));
    assert_eq!(same.milli_tokens(), Some(2000));
    // Another kind with the same name begins anew.
    live.update(&with_throttle(r#"{"maxTokens": 10, "tokenRatio": 0.1}"#))
        .unwrap();
    assert!(live.load().ratio_budget("t").is_none());
    assert_eq!(
        live.load().throttle("t").unwrap().milli_tokens(),
        Some(10_000)
    );
}

#[test]
fn with_a_hedge_budget_neither_pays_for_what_the_other_refuses() {
    let text = r#"{
        "default": {"hedge": {"delay": "1s", "budgetPercent": 0.1}, "throttle": "t"},
        "throttles": {"t": {"retryRatio": 1, "minPerSecond": 0}}}"#;
    let table = table(text);
    let policy = table.route(&Request::new(())).unwrap();
    let (both, ratio) = (policy.throttle().unwrap(), table.ratio_budget("t").unwrap());
    assert!(!both.spend(None), "no calls yet");
    (0..2).for_each(|_| both.settled(Settled::Success));
    assert!(both.spend(None), "the first hedge is free");
    assert!(!both.spend(None));
    assert_eq!(ratio.milli_tokens(), Some(1000));
}
