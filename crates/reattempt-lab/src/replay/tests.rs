//! Recordings of one failed attempt.

use std::time::Duration;

use reattempt::reason::KV_LOCKED;
use reattempt::record::{Entry, Form, Recording, Timed, What};
use reattempt::{AttemptKind, AttemptOutcome, ServerPushback, Stage, StopReason, Transparent};
use reattempt_grpc::reasons::GRPC_UNAVAILABLE;
use reattempt_http::reasons;

use super::traffic::Traffic;
use super::{Decisions, Replay};
use crate::policy::PolicyText;
use crate::run::Limits;

/// A retry without a delay, which the recorded policy decided on; and what the tested one does.
fn retried_at_once(form: Form, recorded: &str, tested: &str) -> Decisions {
    let mut entry = Entry::new(What::Attempt, 0, 0);
    entry.outcome = AttemptOutcome::Retry;
    entry.delay = Some(Duration::ZERO);
    entry.stage = Some(Stage::Response);
    entry.idempotent = true;
    let reason = match form {
        Form::Kv => KV_LOCKED,
        _ => {
            entry.code = Some(503);
            reasons::of_status(503)
        }
    };
    let recording = Recording {
        policy: Some((form, recorded.to_owned())),
        routes: vec!["default".to_owned()],
        reasons: vec![reason],
        entries: vec![Timed { at: 0, entry }],
        ..Recording::default()
    };
    let traffic = Traffic::of(&recording);
    let (tested, _) = PolicyText::of_file(tested).unwrap();
    let decisions = Replay {
        recording,
        traffic,
        from_s: 0,
    }
    .decisions(&tested)
    .unwrap();
    assert_eq!(decisions.of, 1);
    decisions
}

#[test]
fn a_delay_of_zero_is_not_that_of_every_http_policy() {
    let policy = |jitter: &str| {
        format!(
            r#"{{"default": {{"retry": {{"maxAttempts": 3, "backoff": {{"initial": "1s", "jitter": "{jitter}"}}}}}}}}"#
        )
    };
    let tested = |jitter| retried_at_once(Form::HttpPolicy, &policy("full"), &policy(jitter));
    assert_eq!(tested("full").same, 1);
    let other = tested("none");
    assert_eq!(other.first.unwrap().tested, "failed, then 1s");
}

#[test]
fn a_kv_call_whose_configuration_moved_has_no_delay() {
    let constant = |ms: u32| format!(r#"{{"constant_ms": {ms}, "max_attempts": 3}}"#);
    let tested = |recorded: &str, tested: &str| {
        let tested = format!(r#"{{"kv": {tested}}}"#);
        retried_at_once(Form::Kv, recorded, &tested).same
    };
    let best_effort = r#""best_effort""#;
    for recorded in [best_effort, &constant(5)] {
        assert_eq!(tested(recorded, best_effort), 1);
        assert_eq!(tested(recorded, &constant(10)), 1);
    }
    // The delay of the recorded strategy.
    assert_eq!(tested(&constant(0), &constant(0)), 1);
    assert_eq!(tested(&constant(0), best_effort), 0);
}

#[test]
fn a_call_ends_where_its_limit_of_messages_ended_it() {
    let attempt = |call: u32, ms: u64, outcome, stopped| {
        let mut entry = Entry::new(What::Attempt, call, 0);
        entry.took = Duration::from_millis(ms);
        (entry.outcome, entry.stopped) = (outcome, Some(stopped));
        let at = ms * 1_000_000;
        Timed { at, entry }
    };
    let ended_by = |stopped| {
        let recording = Recording {
            policy: None,
            routes: vec!["default".to_owned()],
            reasons: Vec::new(),
            entries: vec![
                attempt(0, 5, AttemptOutcome::Cancelled, stopped),
                attempt(1, 10, AttemptOutcome::Success, StopReason::Success),
            ],
            ..Recording::default()
        };
        let traffic = Traffic::of(&recording);
        let (policy, _) = PolicyText::of_file(r#"{"default": {}}"#).unwrap();
        let replay = Replay {
            recording,
            traffic,
            from_s: 0,
        };
        replay.what_if(&policy, 1, &Limits::default()).unwrap()
    };
    let [by_limit, by_caller] = [StopReason::Fatal, StopReason::Cancelled].map(ended_by);
    assert_eq!((by_limit.calls, by_limit.success), (2, 0.5));
    assert_eq!(by_limit, by_caller);
}

#[test]
fn failures_without_an_answer_come_to_the_same_again() {
    // Each call at its time in milliseconds: an attempt that failed, and one that succeeded.
    let failed = |call: u32, at: &mut u64, change: fn(&mut Entry)| {
        let mut entry = Entry::new(What::Attempt, call, 0);
        entry.took = Duration::from_millis(1);
        (entry.outcome, entry.code) = (AttemptOutcome::Retry, Some(14));
        (entry.stage, entry.delay) = (Some(Stage::InFlight), Some(Duration::from_millis(20)));
        entry.safe = true;
        change(&mut entry);
        let mut second = Entry::new(What::Attempt, call, 0);
        (second.number, second.took) = (2, Duration::from_millis(2));
        (second.kind, second.stopped) = (AttemptKind::Retry, Some(StopReason::Success));
        *at += 100_000_000;
        [(*at, entry), (*at + 20_000_000, second)].map(|(at, entry)| Timed { at, entry })
    };
    let mut at = 0;
    let calls = [
        // A connection that was reset, a refused stream, one to another backend.
        failed(0, &mut at, |_| {}),
        failed(1, &mut at, |entry| entry.transparent = Transparent::Once),
        failed(2, &mut at, |entry| {
            entry.transparent = Transparent::NextBackend;
            entry.stage = Some(Stage::Dispatch);
        }),
        failed(3, &mut at, |entry| {
            entry.pushback = Some(ServerPushback::Stop)
        }),
    ];
    let recording = Recording {
        policy: None,
        routes: vec!["default".to_owned()],
        reasons: vec![GRPC_UNAVAILABLE],
        entries: calls.into_iter().flatten().collect(),
        ..Recording::default()
    };
    let traffic = Traffic::of(&recording);
    let replay = Replay {
        recording,
        traffic,
        from_s: 0,
    };
    let under = |code: &str| {
        let retry = format!(
            r#"{{"maxAttempts": 3, "initialBackoff": "0.02s", "maxBackoff": "0.02s",
                "backoffMultiplier": 1, "retryableStatusCodes": ["{code}"]}}"#
        );
        let policy = format!(r#"{{"methodConfig": [{{"name": [{{}}], "retryPolicy": {retry}}}]}}"#);
        let policy = PolicyText::ServiceConfig(policy);
        let outcome = replay.what_if(&policy, 1, &Limits::default()).unwrap();
        let kinds = outcome.kinds;
        (outcome.success, kinds.retry, kinds.transparent)
    };
    assert_eq!(under("UNAVAILABLE"), (0.75, 1, 2));
    assert_eq!(under("INTERNAL"), (0.5, 0, 2));
}
