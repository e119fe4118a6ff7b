//! Hedge delays that are learned.

use std::time::{Duration, Instant};

use reattempt::HedgePolicy;
use reattempt::policy::{AttemptEnd, EndedAttempt, HedgeView};

use super::*;

fn base() -> Instant {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "a base for arithmetic")]
    *BASE.get_or_init(Instant::now)
}

fn hedge_of(table: &HttpPolicies) -> Arc<HedgePolicy> {
    match table.route(&Request::new(())).unwrap().recovery() {
        Recovery::Hedge(hedge) => Arc::clone(hedge),
        other => panic!("{other:?}"),
    }
}

fn delay(hedge: &HedgePolicy) -> Option<Duration> {
    hedge.delay().delay(&HedgeView::new(base()))
}

/// 2,000 attempts, one in ten of which takes 80 ms and the others 10.
fn learn(hedge: &HedgePolicy) {
    for call in 0..2000_u64 {
        let took = Duration::from_millis(if call % 10 == 0 { 80 } else { 10 });
        let ended = base() + Duration::from_millis(call);
        hedge
            .delay()
            .ended(&EndedAttempt::new(1, ended, took, AttemptEnd::Succeeded));
    }
}

fn table(hedge: &str) -> String {
    format!(r#"{{"default": {{"hedge": {hedge}}}}}"#)
}

#[test]
fn an_extra_load_needs_neither_delay_nor_budget() {
    let parsed = HttpPolicies::parse(&table(r#"{"extraLoadPercent": 2}"#)).unwrap();
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    let hedge = hedge_of(&parsed.policies);
    assert!(hedge.learns() && hedge.max_attempts() == 2);
    assert_eq!(delay(&hedge), None, "nothing is known yet");
    learn(&hedge);
    let learned = delay(&hedge).unwrap();
    assert!(learned > Duration::from_millis(75), "{learned:?}");
}

#[test]
fn a_percentile_is_bounded_by_min_and_max() {
    let text =
        r#"{"delay": {"percentile": 95, "min": "0.005s", "max": "0.02s"}, "budgetPercent": 5}"#;
    let parsed = HttpPolicies::parse(&table(text)).unwrap();
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    let hedge = hedge_of(&parsed.policies);
    assert_eq!(delay(&hedge), Some(Duration::from_millis(20)));
    let text = text.replace("95", "50");
    let parsed = HttpPolicies::parse(&table(&text)).unwrap();
    let hedge = hedge_of(&parsed.policies);
    learn(&hedge);
    let learned = delay(&hedge).unwrap();
    assert!(learned < Duration::from_millis(11), "{learned:?}");
}

#[test]
fn every_fault_of_a_learned_delay_has_its_path() {
    let faults = |hedge: &str| {
        let refused = HttpPolicies::parse(&table(hedge)).unwrap_err();
        let faults = refused.faults().iter().map(ToString::to_string);
        faults.collect::<Vec<_>>()
    };
    let h = "$.default.hedge";
    assert_eq!(
        faults(r#"{"delay": "1s", "extraLoadPercent": 60}"#),
        [
            format!("{h}: has both delay and extraLoadPercent: only one may be set"),
            format!(
                "{h}.extraLoadPercent: must be a number from 0.1 to 50 with at most one decimal place, got 60"
            ),
        ]
    );
    assert_eq!(
        faults(r#"{"delay": {"percentile": 100, "min": "2s", "max": "1s"}}"#),
        [
            format!(
                "{h}.delay.percentile: must be a number from 1 to 99.9 with at most one decimal place, got 100"
            ),
            format!("{h}.delay.max: is below min"),
        ]
    );
    assert_eq!(
        faults(r#"{"delay": {"min": 5}}"#).len(),
        2,
        "the percentile is missing, and min is no duration"
    );
}

#[test]
fn an_update_keeps_what_a_delay_of_the_same_text_learned() {
    let text = table(r#"{"extraLoadPercent": 2}"#);
    let live = LiveHttpPolicies::new(HttpPolicies::parse(&text).unwrap().policies);
    learn(&hedge_of(&live.load()));
    let learned = delay(&hedge_of(&live.load()));
    live.update(&text.replace("}}}", r#"}, "timeout": "1s"}}"#))
        .unwrap();
    assert!(learned.is_some() && delay(&hedge_of(&live.load())) == learned);
    live.update(&text.replace(": 2", ": 3")).unwrap();
    assert_eq!(delay(&hedge_of(&live.load())), None, "another text");
}
