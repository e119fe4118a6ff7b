//! Recordings of one failed attempt.

mod hedged;
mod many;

use std::time::Duration;

use reattempt::reason::KV_LOCKED;
use reattempt::record::{Entry, Form, Recording, Timed, What};
use reattempt::{
    AttemptKind, AttemptOutcome, RetryReason, ServerPushback, Stage, StopReason, Transparent,
};
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
    let replay = replay(
        Some((form, recorded)),
        vec![reason],
        vec![Timed { at: 0, entry }],
    );
    let (tested, _) = PolicyText::of_file(tested).unwrap();
    let decisions = replay.decisions(&tested).unwrap();
    assert_eq!(decisions.of, 1);
    decisions
}

/// Of calls of one route.
fn replay(policy: Option<(Form, &str)>, reasons: Vec<RetryReason>, entries: Vec<Timed>) -> Replay {
    replay_of(Recording {
        policy: policy.map(|(form, text)| (form, text.to_owned())),
        routes: vec!["default".to_owned()],
        reasons,
        entries,
        ..Recording::default()
    })
}

fn replay_of(recording: Recording) -> Replay {
    Replay {
        traffic: Traffic::of(&recording),
        recording,
        from_s: 0,
    }
}

/// An attempt of one millisecond that succeeded, and ended then.
fn attempt(call: u32, number: u16, at_ms: u64) -> Timed {
    let mut entry = Entry::new(What::Attempt, call, 0);
    (entry.number, entry.took, entry.idempotent) = (number, Duration::from_millis(1), true);
    entry.stopped = Some(StopReason::Success);
    let at = at_ms * 1_000_000;
    Timed { at, entry }
}

/// One that failed and was retried after this delay.
fn failed(call: u32, at_ms: u64, code: i32, delay: Duration) -> Timed {
    let mut failed = attempt(call, 1, at_ms);
    failed.entry.outcome = AttemptOutcome::Retry;
    failed.entry.stage = Some(Stage::Response);
    (failed.entry.code, failed.entry.stopped) = (Some(code), None);
    failed.entry.delay = Some(delay);
    failed
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
        let entries = vec![
            attempt(0, 5, AttemptOutcome::Cancelled, stopped),
            attempt(1, 10, AttemptOutcome::Success, StopReason::Success),
        ];
        let (policy, _) = PolicyText::of_file(r#"{"default": {}}"#).unwrap();
        let replay = replay(None, Vec::new(), entries);
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
    let calls = calls.into_iter().flatten().collect();
    let replay = replay(None, vec![GRPC_UNAVAILABLE], calls);
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

/// Two calls of one route: the first failed with this status and pushback, was retried and went
/// well; the second went well. What they come to under the other policy.
fn retried_after(
    code: i32,
    pushback_ms: Option<u64>,
    recorded: &str,
    tested: &str,
) -> (f64, u64, f64) {
    let delay = Duration::from_millis(pushback_ms.unwrap_or(20));
    let mut failed = failed(0, 1, code, delay);
    failed.entry.pushback = pushback_ms.map(|_| ServerPushback::After(delay));
    let mut again = attempt(0, 2, 2 + delay.as_millis() as u64);
    again.entry.kind = AttemptKind::Retry;
    under_text(vec![failed, attempt(1, 1, 5), again], recorded, tested)
}

fn under_text(entries: Vec<Timed>, recorded: &str, tested: &str) -> (f64, u64, f64) {
    let policy = Some((Form::HttpPolicy, recorded));
    let replay = replay(policy, vec![reasons::of_status(503)], entries);
    let (tested, _) = PolicyText::of_file(tested).unwrap();
    let outcome = replay.what_if(&tested, 1, &Limits::default()).unwrap();
    let longest = outcome.latency_ms.max.unwrap();
    (outcome.success, outcome.kinds.retry, longest)
}

#[test]
fn the_recorded_policy_keeps_its_verdicts_beside_its_text() {
    let policy = |attempts: u32| {
        format!(
            r#"{{"default": {{"retry": {{"maxAttempts": {attempts}, "backoff": {{"initial": "0.02s"}}}}}}}}"#
        )
    };
    // As presets do, whose classifier is not in the text.
    for code in [529, 501, 409, 403] {
        let under = |tested| retried_after(code, None, &policy(3), &policy(tested));
        let (success, retries, _) = under(3);
        assert_eq!((success, retries), (1.0, 1), "{code}");
        // Another policy is asked.
        assert_eq!(under(4).0, 0.5, "{code}");
    }
}

#[test]
fn a_recorded_pushback_is_neither_spread_nor_capped_again() {
    let policy = |attempts: u32, retry_after: &str| {
        format!(
            r#"{{"default": {{"retry": {{"maxAttempts": {attempts}}}, "retryAfter": {{{retry_after}}}}}}}"#
        )
    };
    let own = r#""cap": "10s", "spread": "5s""#;
    let under = |attempts, tested: &str| {
        let tested = policy(attempts, tested);
        retried_after(503, Some(12_000), &policy(3, own), &tested)
    };
    // The server asked for 7 to 10 s.
    let as_recorded = (1.0, 1, 12_002.0);
    assert_eq!(under(3, own), as_recorded);
    assert_eq!(under(4, own), as_recorded);
    assert_eq!(under(4, r#""cap": "7s""#), as_recorded);
    assert_eq!(under(4, ""), as_recorded);
    assert_eq!(under(4, r#""cap": "6s""#).0, 0.5);
    let waits = under(4, r#""cap": "6s", "beyondCap": "wait""#);
    assert_eq!(waits, (1.0, 1, 6_002.0));
    assert!(under(4, r#""honour": false"#).2 < 1_000.0);
}

#[test]
fn a_recorded_delay_that_was_too_long_is_asked_about_again() {
    let policy = |cap: &str| {
        format!(r#"{{"default": {{"retry": {{"maxAttempts": 3}}, "retryAfter": {{{cap}}}}}}}"#)
    };
    let under = |recorded: &str, tested: &str| {
        let mut failed = failed(0, 1, 503, Duration::ZERO);
        let asked = ServerPushback::TooLong { millis: 12_000 };
        (failed.entry.pushback, failed.entry.delay) = (Some(asked), None);
        failed.entry.stopped = Some(StopReason::Pushback);
        let calls = vec![failed, attempt(1, 1, 5)];
        let (success, retries, longest) = under_text(calls, &policy(recorded), &policy(tested));
        assert_eq!(success, if retries == 1 { 1.0 } else { 0.5 });
        (retries, longest.round())
    };
    let cap = r#""cap": "10s""#;
    let ends = (0, 1.0);
    assert_eq!(under(cap, cap), ends);
    assert_eq!(under(cap, r#""cap": "11s""#), ends);
    assert_eq!(under(cap, r#""cap": "12s""#).0, 1);
    assert!(under(cap, "").1 > 12_000.0);
    // A cap that is not in the recorded text is one of the client.
    assert_eq!(under("", ""), ends);
    assert_eq!(under("", r#""cap": "20s""#), ends);
}

#[test]
fn a_recorded_method_takes_the_entry_of_its_service() {
    let routes = |names: &str, recorded: &str| {
        let config = format!(
            r#"{{"methodConfig": [{{"name": [{names}], "timeout": "3s"}}, {{"name": [{{}}], "timeout": "9s"}}]}}"#
        );
        let classes = PolicyText::ServiceConfig(config).classes_of(&[recorded.to_owned()]);
        classes.unwrap()[0].timeout().unwrap() / 1_000_000_000
    };
    let (service, method) = (
        r#"{"service": "a.B"}"#,
        r#"{"service": "a.B", "method": "Get"}"#,
    );
    assert_eq!(routes(service, "a.B/Get"), 3);
    assert_eq!(routes(method, "a.B/Get"), 3);
    assert_eq!(routes(service, "a.B"), 3);
    for (names, recorded) in [(method, "a.B"), (service, "c.D/Get"), (service, "default")] {
        assert_eq!(routes(names, recorded), 9, "{recorded}");
    }
}

#[test]
fn recorded_routes_that_a_policy_does_not_have_are_warned_of() {
    let route =
        |method: &str, rest: &str| format!(r#"{{"match": {{"methods": ["{method}"]}}{rest}}}"#);
    let policy = |routes: &[String]| format!(r#"{{"routes": [{}]}}"#, routes.join(","));
    let named = |method, name| route(method, &format!(r#", "name": "{name}""#));
    let (get, put) = (route("GET", ""), route("PUT", ""));
    let own = [get.clone(), named("POST", "writes"), put.clone()];
    let names = ["", "default", "routes[0]", "writes", "routes[2]"];
    let replay = replay_of(Recording {
        policy: Some((Form::HttpPolicy, policy(&own))),
        routes: names.map(str::to_owned).to_vec(),
        ..Recording::default()
    });
    let of = |routes: &[String]| {
        let warnings = replay.warnings(&PolicyText::HttpPolicy(policy(routes)));
        let texts = warnings.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>()
    };
    assert!(of(&own).is_empty());
    let retried = route("GET", r#", "timeout": "1s""#);
    let [_, writes, _] = own.clone();
    assert!(of(&[retried, writes.clone(), put.clone()]).is_empty());
    let other = |at| format!("$: routes[{at}] may not be the recorded one: give the routes names");
    let gone = "$: has no route \"writes\": the calls recorded under it take the default";
    assert_eq!(
        of(&[put.clone(), get.clone(), writes]),
        [other(0), other(2)]
    );
    assert_eq!(of(&[get, named("POST", "posts"), put]), [gone]);
    let config = PolicyText::ServiceConfig("{}".to_owned());
    assert!(replay.warnings(&config).is_empty());
}
