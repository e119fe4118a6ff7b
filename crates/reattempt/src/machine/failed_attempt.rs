//! An attempt that failed: what is known of it, and the facts that every decision reads.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::{stage, transparent};
use crate::failure::reason::CIRCUIT_BREAKER_OPEN;
use crate::info::AttemptRecord;
use crate::{
    AttemptKind, AttemptOutcome, AttemptReport, CallDeadline, Failure, OnDeadline, ServerPushback,
    Stage, StopReason, Transparent, Verdict,
};

/// The longest pushback that a call without a deadline waits for. A longer one means stop.
const LONGEST_PUSHBACK: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of an attempt when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// When it ended.
    pub now: Instant,
    /// Its number, from 1.
    pub attempt: u32,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// What inner layers and the transport reported of it.
    pub report: AttemptReport,
    /// The request could be sent once more.
    pub replayable: bool,
    /// The request itself ended the attempt, because another attempt goes on alone (A6, Memory
    /// Management): it is neither counted nor the call's failure.
    pub cut_off: bool,
    /// The request had content, and the transport read none of it: see
    /// [`Transparent::IfUnread`].
    pub unread: bool,
    /// Another backend of the call let an attempt through, so that an open circuit is not final.
    pub other_backend: bool,
    /// A newer configuration has already moved what the call is about.
    pub config_moved: bool,
    /// Transparent retries are switched on.
    pub transparent: bool,
    /// The request may take effect twice.
    pub idempotent: bool,
    /// The call's deadline.
    pub deadline: Option<CallDeadline>,
    /// What the protocol does with a delay that does not fit before the deadline, for a strategy
    /// that leaves it open ([`Classify::on_deadline`](crate::Classify::on_deadline)).
    pub on_deadline: OnDeadline,
}

impl Facts {
    /// The facts of an idempotent, replayable attempt without a deadline, of which nothing was
    /// reported.
    #[must_use]
    pub fn new(now: Instant, attempt: u32, kind: AttemptKind) -> Self {
        Self {
            now,
            attempt,
            kind,
            report: AttemptReport::default(),
            replayable: true,
            cut_off: false,
            unread: false,
            other_backend: false,
            config_moved: false,
            transparent: true,
            idempotent: true,
            deadline: None,
            on_deadline: OnDeadline::GiveUp,
        }
    }
}

/// An attempt that failed, on its way through the gates: what is known of it, and what was decided.
///
/// A machine's `failed` learns of it first, then its `decide` says what follows and writes the
/// delay, or why none follows. Between the two the driver counts the failure in the throttle.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    pub(super) facts: Facts,
    pub(super) failure: Failure,
    pub(super) retryable: bool,
    /// The delay of a transparent retry, which takes place whatever the policy says.
    pub(super) transparent: Option<Duration>,
    /// Its record, without what only the call knows: the backend.
    pub record: AttemptRecord,
}

impl FailedAttempt {
    /// `None` for a verdict that is no failure.
    #[must_use]
    pub fn new(facts: &Facts, verdict: &Verdict) -> Option<Self> {
        let (classified, retryable) = match *verdict {
            Verdict::Success | Verdict::Committed => return None,
            Verdict::Fatal(failure) => (failure, false),
            Verdict::Retry(failure) => (failure, true),
        };
        if facts.report.circuit_open {
            let waits = retryable && classified.reason == CIRCUIT_BREAKER_OPEN;
            return Some(Self::refused(facts, classified.code, waits));
        }
        let mut failure = classified;
        failure.transparent = transparent::resolved(classified.transparent, facts);
        let unread = classified.transparent == Transparent::IfUnread && facts.unread;
        stage::weigh(&mut failure, unread, &facts.report);
        Some(Self::known(facts, failure, retryable))
    }

    pub(super) fn known(facts: &Facts, mut failure: Failure, retryable: bool) -> Self {
        if facts.report.in_doubt {
            // The failure is one of a later step.
            failure.stage = failure.stage.max(Stage::InFlight);
            (failure.safe, failure.transparent) = (false, Transparent::No);
        }
        let outcome = match (facts.cut_off, retryable) {
            (true, _) => AttemptOutcome::Cancelled,
            (false, true) => AttemptOutcome::Retry,
            (false, false) => AttemptOutcome::Fatal,
        };
        let mut record = AttemptRecord::new(facts.attempt, facts.kind, outcome);
        // The error of an attempt that was cut off says nothing about the server.
        record.failure = (!facts.cut_off).then_some(failure);
        record.pushback = facts.report.pushback;
        record.pushback_unreadable = facts.report.pushback_unreadable;
        record.ended = Some(facts.now);
        Self {
            facts: *facts,
            failure,
            retryable,
            transparent: None,
            record,
        }
    }

    /// What follows: an attempt after this delay, or none for this reason.
    pub(super) const fn decided(&mut self, delay: Option<Duration>, stopped: Option<StopReason>) {
        (self.record.delay, self.record.stopped) = (delay, stopped);
    }

    /// No attempt follows, for this reason.
    pub const fn stop(&mut self, stopped: StopReason) {
        self.decided(None, Some(stopped));
    }

    /// The failure, with the stage that counts.
    #[must_use]
    pub const fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The server, or a layer on its behalf, wants no further attempt of this call.
    pub(super) fn is_stop(&self) -> bool {
        match self.facts.report.pushback {
            _ if self.facts.report.forbidden => true,
            Some(ServerPushback::Stop) => true,
            // Without a deadline a server could make the call wait for years. With one the delay is
            // held against the deadline, as any other.
            Some(ServerPushback::After(delay)) => {
                delay > LONGEST_PUSHBACK && self.facts.deadline.is_none()
            }
            None => false,
        }
    }

    /// The delay that the server asked for.
    pub(super) const fn pushback_delay(&self) -> Option<Duration> {
        match self.facts.report.pushback {
            Some(ServerPushback::After(delay)) => Some(delay),
            Some(ServerPushback::Stop) | None => None,
        }
    }
}
