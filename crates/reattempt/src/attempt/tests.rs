use super::*;
use crate::failure::reason::{KV_LOCKED, SOCKET_NOT_AVAILABLE, UNKNOWN};

/// The instant at which every attempt ended here.
fn start() -> Instant {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    Instant::now()
}

fn safe(failure: Failure, reported: impl Into<Option<Stage>>) -> bool {
    let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
    facts.report.stage = reported.into();
    let failed = FailedAttempt::new(&facts, &Verdict::Retry(failure));
    failed.is_some_and(|failed| failed.failure.safe)
}

#[test]
fn an_attempt_in_doubt_is_not_safe_and_not_transparent() {
    let never_sent = Failure::new(KV_LOCKED, Stage::Dispatch);
    let never_sent = never_sent.safe(true).transparent(Transparent::Unlimited);
    for (failure, stage) in [
        (never_sent, Stage::InFlight),
        (
            Failure::new(KV_LOCKED, Stage::Response).safe(true),
            Stage::Response,
        ),
    ] {
        let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
        facts.report.in_doubt = true;
        let failed = FailedAttempt::new(&facts, &Verdict::Retry(failure))
            .unwrap()
            .failure;
        assert_eq!(
            (failure.safe, failed.safe, failed.stage),
            (true, false, stage)
        );
        assert_eq!(failed.transparent, Transparent::No);
    }
}

#[test]
fn a_refusal_moves_on_to_another_backend_or_is_final() {
    for (untried_backend, transparent) in
        [(true, Transparent::NextBackend), (false, Transparent::No)]
    {
        let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
        facts.report.circuit_open = true;
        facts.report.untried_backend = untried_backend;
        let classified = Failure::new(UNKNOWN, Stage::InFlight).code(503);
        let failed = FailedAttempt::new(&facts, &Verdict::Retry(classified)).unwrap();
        assert_eq!(failed.failure.reason, CIRCUIT_BREAKER_OPEN);
        assert_eq!(failed.failure.stage, Stage::Dispatch);
        assert_eq!(
            (failed.failure.safe, failed.failure.code),
            (true, Some(503))
        );
        assert_eq!(failed.failure.transparent, transparent);
        assert!(!failed.retryable && !failed.counts());
    }
}

#[test]
fn a_refusal_is_retryable_if_it_waits_or_may_go_elsewhere() {
    let retryable = |other_backend, reason| {
        let mut facts = Facts::new(start(), 2, AttemptKind::Retry);
        facts.report.circuit_open = true;
        facts.other_backend = other_backend;
        let classified = Verdict::Retry(Failure::new(reason, Stage::Dispatch));
        let failed = FailedAttempt::new(&facts, &classified).unwrap();
        assert!(!failed.counts(), "no throttle counts it");
        failed.retryable
    };
    assert!(!retryable(false, UNKNOWN));
    assert!(retryable(true, UNKNOWN));
    assert!(retryable(false, CIRCUIT_BREAKER_OPEN));
}

#[test]
fn a_refusal_of_a_later_step_does_not_move_on() {
    let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
    facts.report.circuit_open = true;
    facts.report.untried_backend = true;
    facts.report.in_doubt = true;
    let classified = Failure::new(UNKNOWN, Stage::InFlight);
    let failed = FailedAttempt::new(&facts, &Verdict::Retry(classified)).unwrap();
    assert_eq!(failed.failure.reason, CIRCUIT_BREAKER_OPEN);
    let known = (failed.failure.stage, failed.failure.safe);
    assert_eq!(known, (Stage::InFlight, false));
    assert_eq!(failed.failure.transparent, Transparent::No);
}

#[test]
fn an_attempt_that_left_is_only_as_safe_as_its_reason() {
    let never_sent = |reason| Failure::new(reason, Stage::Dispatch).safe(true);
    assert!(safe(never_sent(UNKNOWN), Stage::Dispatch));
    assert!(!safe(never_sent(UNKNOWN), Stage::InFlight));
    assert!(!safe(never_sent(UNKNOWN), Stage::Response));
    assert!(safe(never_sent(KV_LOCKED), Stage::InFlight));
    assert!(SOCKET_NOT_AVAILABLE.allows_non_idempotent_retry());
    assert!(safe(never_sent(SOCKET_NOT_AVAILABLE), Stage::Dispatch));
    assert!(!safe(never_sent(SOCKET_NOT_AVAILABLE), Stage::InFlight));
    let classified = Failure::new(UNKNOWN, Stage::Response).safe(true);
    assert!(safe(classified, Stage::Response), "the classifier decides");
}

/// C13: also where no transport reports how far it came.
#[test]
fn without_a_report_the_classified_stage_decides() {
    for (reason, stage, is_safe) in [
        (UNKNOWN, Stage::Dispatch, true),
        (UNKNOWN, Stage::InFlight, false),
        (KV_LOCKED, Stage::InFlight, true),
        (SOCKET_NOT_AVAILABLE, Stage::Dispatch, true),
        (SOCKET_NOT_AVAILABLE, Stage::InFlight, false),
        (SOCKET_NOT_AVAILABLE, Stage::Response, true),
    ] {
        let failure = Failure::new(reason, stage);
        assert_eq!(safe(failure, None), is_safe, "{reason} {stage:?}");
        let stated = failure.safe(true);
        assert!(
            safe(stated, None) && safe(stated, stage),
            "the classifier knows more"
        );
    }
}

#[test]
fn an_attempt_that_left_is_not_retried_as_if_it_had_not() {
    for (reported, transparent) in [
        (Stage::Dispatch, Transparent::Unlimited),
        (Stage::InFlight, Transparent::No),
    ] {
        let mut facts = Facts::new(start(), 1, AttemptKind::Initial);
        facts.report.stage = Some(reported);
        let never_sent = Failure::new(UNKNOWN, Stage::Dispatch).transparent(Transparent::Unlimited);
        let failed = FailedAttempt::new(&facts, &Verdict::Retry(never_sent)).unwrap();
        assert_eq!(failed.failure.transparent, transparent);
    }
}

/// Every failed attempt copies it.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_failure_is_three_words() {
    assert_eq!(size_of::<Failure>(), 24);
    assert_eq!(size_of::<Verdict>(), 32);
}
