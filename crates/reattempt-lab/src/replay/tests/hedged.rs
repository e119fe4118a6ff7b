//! Recordings of hedged calls.

use super::*;

/// One that took this long and ended at this time.
fn hedged(number: u16, kind: AttemptKind, took_ms: u64, at_ms: u64) -> Timed {
    let mut attempt = attempt(0, number, at_ms);
    (attempt.entry.kind, attempt.entry.took) = (kind, Duration::from_millis(took_ms));
    attempt
}

/// The same with a failure.
fn failing(mut attempt: Timed) -> Timed {
    attempt.entry.outcome = AttemptOutcome::Retry;
    attempt.entry.stage = Some(Stage::Response);
    (attempt.entry.code, attempt.entry.stopped) = (Some(503), None);
    attempt
}

/// At one instant the first attempt was refused unseen, and the second ended the hedging.
#[test]
fn a_refused_hedge_leaves_the_transparent_retry_planned() {
    let mut unseen = failing(hedged(1, AttemptKind::Initial, 210, 210));
    unseen.entry.transparent = Transparent::Once;
    unseen.entry.delay = Some(Duration::ZERO);
    let mut stopped = failing(hedged(2, AttemptKind::Hedge, 110, 210));
    stopped.entry.pushback = Some(ServerPushback::Stop);
    stopped.entry.stopped = Some(StopReason::Pushback);
    stopped.entry.delay = Some(Duration::ZERO);
    let mut refused = Entry::new(What::Refused, 0, 0);
    refused.stopped = Some(StopReason::Pushback);
    let refused = Timed {
        at: 210_000_000,
        entry: refused,
    };
    let again = hedged(3, AttemptKind::Transparent, 5, 215);
    let policy = r#"{"default": {"hedge": {"maxAttempts": 4, "delay": "0.1s"}}}"#;
    let replay = replay(
        Some((Form::HttpPolicy, policy)),
        vec![reasons::of_status(503)],
        vec![unseen, stopped, refused, again],
    );
    let (tested, _) = PolicyText::of_file(policy).unwrap();
    let decisions = replay.decisions(&tested).unwrap();
    let first = decisions.first.map(|first| first.tested);
    assert_eq!((first, decisions.same), (None, decisions.of));
}
