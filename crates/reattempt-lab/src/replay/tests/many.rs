//! Recordings of more different failures and kinds of call than a replay keeps apart.

use super::*;

/// Calls that failed once, each with another delay that its server asked for, from 1001 ms on. The
/// median as recorded and as replayed under the recorded policy, and the warnings.
fn asked_for(delays: u32) -> ([f64; 2], Vec<String>) {
    let mut entries = Vec::new();
    for call in 0..delays {
        let (at_ms, delay_ms) = (u64::from(call), 1001 + u64::from(call));
        let delay = Duration::from_millis(delay_ms);
        let mut failed = failed(call, 1 + at_ms, 503, delay);
        failed.entry.pushback = Some(ServerPushback::After(delay));
        let mut again = attempt(call, 2, 2 + at_ms + delay_ms);
        again.entry.kind = AttemptKind::Retry;
        entries.extend([failed, again]);
    }
    entries.sort_by_key(|timed| timed.at);
    let policy = r#"{"default": {"retry": {"maxAttempts": 3}}}"#;
    let recorded = Some((Form::HttpPolicy, policy));
    let replay = replay(recorded, vec![reasons::of_status(503)], entries);
    let policy = PolicyText::HttpPolicy(policy.to_owned()).checked().unwrap();
    let replayed = replay.what_if(&policy, 1, &Limits::default()).unwrap();
    let medians = [replay.recorded(), replayed].map(|outcome| outcome.latency_ms.p50.unwrap());
    let warnings = replay.warnings(&policy);
    (medians, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn each_of_thousands_of_recorded_pushbacks_is_waited_again() {
    let ([recorded, replayed], warnings) = asked_for(3000);
    assert_eq!(replayed, recorded);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn of_too_many_recorded_pushbacks_the_rest_is_rounded() {
    let ([recorded, replayed], warnings) = asked_for(20_000);
    assert!(
        (replayed / recorded - 1.0).abs() < 0.05,
        "{replayed} {recorded}"
    );
    let rounded = "$: the recording has very many delays that servers asked for: those of 11979 attempts are rounded to two digits";
    assert_eq!(warnings, [rounded]);
}

/// As many routes as there may be of calls that are idempotent, and one more of each kind.
#[test]
fn calls_of_further_routes_keep_their_idempotency() {
    let routes = 1001;
    let mut entries = Vec::new();
    for call in 0..=routes {
        let mut failed = attempt(call, 1, 1 + u64::from(call) * 100);
        failed.entry.route = call.min(routes - 1) as u16;
        failed.entry.idempotent = call < routes;
        failed.entry.outcome = AttemptOutcome::Retry;
        failed.entry.stage = Some(Stage::InFlight);
        failed.entry.delay = Some(Duration::from_millis(1));
        failed.entry.stopped = None;
        if !failed.entry.idempotent {
            failed.entry.stopped = Some(StopReason::NotIdempotent);
            entries.push(failed);
            continue;
        }
        let mut again = failed;
        (again.at, again.entry.number) = (failed.at + 2_000_000, 2);
        (again.entry.kind, again.entry.outcome) = (AttemptKind::Retry, AttemptOutcome::Success);
        again.entry.stopped = Some(StopReason::Success);
        entries.extend([failed, again]);
    }
    let policy = r#"{"default": {"retry": {"maxAttempts": 2, "backoff": {"initial": "0.001s", "jitter": "none"}}}}"#;
    let replay = replay_of(Recording {
        policy: Some((Form::HttpPolicy, policy.to_owned())),
        routes: (0..routes)
            .map(|route| format!("routes[{route}]"))
            .collect(),
        reasons: vec![reasons::HTTP_TIMEOUT],
        entries,
        ..Recording::default()
    });
    let policy = PolicyText::HttpPolicy(policy.to_owned()).checked().unwrap();
    let replayed = replay.what_if(&policy, 1, &Limits::default()).unwrap();
    assert_eq!(replayed.ended, replay.recorded().ended);
    assert_eq!(replayed.kinds.retry, u64::from(routes));
    let warnings = replay.warnings(&policy);
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let others = "$: the recording has more than 1000 kinds of call: 1 of its calls run as those of another route";
    assert_eq!(warnings, [others]);
}
