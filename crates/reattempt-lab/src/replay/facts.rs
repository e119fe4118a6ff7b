//! What a record says, in the machines' terms, and decisions in words.

use std::time::Duration;

use reattempt::machine::Facts;
use reattempt::record::Entry;
use reattempt::{
    AttemptOutcome, CallDeadline, Failure, RetryReason, ServerPushback, Stage, StopReason,
    Transparent, Verdict, reason,
};

use super::traffic::Recorded;
use crate::policy::Clock;

pub(super) fn deadline(recorded: &Recorded, clock: &Clock) -> Option<CallDeadline> {
    recorded.deadline.map(|deadline| CallDeadline {
        at: clock.at(deadline),
        enforced: recorded.enforced,
    })
}

/// What the transport and the request contributed, as far as the record shows it.
pub(super) fn facts(
    entry: &Entry,
    reasons: &[RetryReason],
    now: std::time::Instant,
    deadline: Option<CallDeadline>,
) -> Facts {
    let mut facts = Facts::new(now, entry.number.into(), entry.kind);
    facts.idempotent = entry.idempotent;
    facts.deadline = deadline;
    facts.cut_off = entry.cut_off;
    facts.replayable = entry.stopped != Some(StopReason::NotReplayable);
    facts.report.pushback = entry.pushback;
    facts.report.pushback_unreadable = entry.unreadable;
    facts.report.forbidden = is_forbidden(entry);
    facts.report.untried_backend = entry.transparent == Transparent::NextBackend;
    let failed = matches!(entry.outcome, AttemptOutcome::Fatal | AttemptOutcome::Retry);
    let reason = reasons.get(usize::from(entry.reason));
    facts.report.circuit_open = failed && reason == Some(&reason::CIRCUIT_BREAKER_OPEN);
    facts.report.in_doubt = facts.report.circuit_open && entry.stage > Some(Stage::Dispatch);
    // Of key-value calls whose strategy has delays; the follower knows whether they are.
    let at_once = entry.delay == Some(Duration::ZERO) && entry.transparent == Transparent::No;
    facts.config_moved = at_once && !matches!(entry.pushback, Some(ServerPushback::After(_)));
    facts
}

/// A layer wanted no further attempt on the server's behalf.
pub(super) fn is_forbidden(entry: &Entry) -> bool {
    entry.stopped == Some(StopReason::Pushback) && entry.pushback.is_none()
}

/// The recorded verdict.
pub(super) fn verdict(entry: &Entry, reasons: &[RetryReason]) -> Verdict {
    let (Some(stage), Some(reason)) = (entry.stage, reasons.get(usize::from(entry.reason))) else {
        return Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::InFlight));
    };
    let mut failure = Failure::new(*reason, stage)
        .transparent(entry.transparent)
        .safe(entry.safe)
        .server_failed(entry.server_failed);
    failure.code = entry.code;
    if entry.outcome == AttemptOutcome::Retry {
        Verdict::Retry(failure)
    } else {
        Verdict::Fatal(failure)
    }
}

/// Delays of more than four minutes are recorded in whole microseconds or more.
pub(super) fn same_delay(recorded: Option<Duration>, tested: Option<Duration>) -> bool {
    match (recorded, tested) {
        (Some(recorded), Some(tested)) => {
            tested >= recorded && tested - recorded <= recorded / (1 << 20)
        }
        (recorded, tested) => recorded == tested,
    }
}

pub(super) fn says(
    outcome: AttemptOutcome,
    delay: Option<Duration>,
    stopped: Option<StopReason>,
) -> String {
    match (delay, stopped) {
        (_, Some(stopped)) => format!("{}, then {}", outcome.name(), stopped.name()),
        (Some(delay), None) => format!("{}, then {delay:?}", outcome.name()),
        (None, None) => outcome.name().to_owned(),
    }
}

pub(super) fn says_refused(by: Option<StopReason>) -> String {
    by.map_or("it is sent".to_owned(), |by| {
        format!("it is refused: {}", by.name())
    })
}
