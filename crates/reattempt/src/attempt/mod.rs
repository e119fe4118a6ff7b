//! One attempt, when it has ended.
//!
//! The classifier gives a [`Verdict`]; what else is known are the [`Facts`]. If the attempt failed,
//! both become a [`FailedAttempt`], which the machines take through their gates. What stays in the
//! history of the call is its [`AttemptRecord`].

mod backend;
mod builders;
mod refused;
mod report;
mod stop_reason;
#[cfg(test)]
mod tests;
mod weighed;

use std::time::{Duration, Instant};

pub use backend::Backend;
pub use report::AttemptReport;
pub use stop_reason::StopReason;

use crate::failure::reason::CIRCUIT_BREAKER_OPEN;
use crate::{CallDeadline, OnDeadline, RetryReason, ServerPushback, Stage};

/// A classifier's verdict on one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It succeeded. Counted as a success; the response goes to the caller.
    Success,
    /// The head of the response has arrived and the rest decides later (a gRPC status in trailers):
    /// no further attempt, and nothing is counted yet (A6, When Retries are Valid). On a call
    /// with a throttle a layer below the recovery layer has to report how it ends: see
    /// [`AttemptReporter::finish`](crate::AttemptReporter::finish).
    Committed,
    /// It failed, and a retry would not help: the failure goes to the caller.
    ///
    /// If it is the server's answer to the request (not found, for example), give its reason
    /// [`answer`](crate::retry_reasons): otherwise it counts against the backend.
    Fatal(Failure),
    /// It failed, and a retry may help.
    Retry(Failure),
}

impl Verdict {
    /// The failure, if there is one.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success | Self::Committed => None,
            Self::Fatal(failure) | Self::Retry(failure) => Some(failure),
        }
    }
}

/// Why and where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Failure {
    /// The reason, from the vocabulary that all protocols share.
    pub reason: RetryReason,
    /// How far the attempt came.
    pub stage: Stage,
    /// The protocol's own code (gRPC code, HTTP or KV status, MongoDB code), if there was one.
    pub code: Option<i32>,
    /// Whether it may be retried without being counted.
    pub transparent: Transparent,
    /// True if even a non-idempotent request may be sent again.
    pub safe: bool,
    /// True if the server failed although the reason is one of answers
    /// ([`RetryReason::is_answer`]): an internal error that has no reason of its own.
    pub server_failed: bool,
    /// What the protocol adds: its classifier writes it, its strategies read it, and nothing else
    /// looks at it. 0 if there is nothing.
    pub extension: u32,
}

/// Whether a failure may be retried without counting as a retry (A6, Transparent Retries).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transparent {
    /// The server's application may have seen the request: the policy decides.
    #[default]
    No,
    /// It reached the server but not its application (REFUSED_STREAM): retried once per call.
    Once,
    /// The connection was lost, and the attempt never left the client if its request body was never
    /// read ([`Replay::was_unread`](crate::Replay::was_unread)). In that case as
    /// [`Transparent::Unlimited`], in the stage [`Stage::Dispatch`] and safe for any request;
    /// otherwise as [`Transparent::No`].
    IfUnread,
    /// No connection could be made: retried at once while there is a backend that the call has not
    /// tried ([`AttemptReport::untried_backend`](crate::AttemptReport::untried_backend)), at most
    /// [`MOST_RECORDS`](crate::MOST_RECORDS) times; otherwise as [`Transparent::No`].
    NextBackend,
    /// It never left the client: retried until the deadline.
    Unlimited,
}

/// Why an attempt was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptKind {
    /// The first attempt of its call.
    #[default]
    Initial,
    /// Sent after a failure.
    Retry,
    /// Sent while others are still in flight.
    Hedge,
    /// Sent after a failure that the server's application never saw; not counted.
    Transparent,
}

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
/// [`RetryMachine::failed`](crate::machine::RetryMachine::failed) learns of it first, then
/// [`decide`](crate::machine::RetryMachine::decide) says what follows and writes the delay, or why
/// none follows. Between the two the driver counts the failure in the throttle.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    pub(crate) facts: Facts,
    pub(crate) failure: Failure,
    /// The verdict was to retry; or a circuit breaker refused the attempt, and it may go elsewhere
    /// or wait.
    pub(crate) retryable: bool,
    /// The delay of a transparent retry, which takes place whatever the policy says.
    pub(crate) transparent_delay: Option<Duration>,
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
        failure.transparent = weighed::resolved(classified.transparent, facts);
        let unread = classified.transparent == Transparent::IfUnread && facts.unread;
        weighed::weigh(&mut failure, unread, &facts.report);
        Some(Self::known(facts, failure, retryable))
    }

    /// One whose failure is weighed already: only doubt corrects it further.
    pub(crate) fn known(facts: &Facts, mut failure: Failure, retryable: bool) -> Self {
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
            transparent_delay: None,
            record,
        }
    }

    /// What follows: an attempt after this delay, or none for this reason.
    pub(crate) const fn decided(&mut self, delay: Option<Duration>, stopped: Option<StopReason>) {
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
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It succeeded.
    Success,
    /// Its response is committed; the rest decides later.
    Committed,
    /// It failed with a fatal failure.
    Fatal,
    /// It failed in a way that a retry might fix.
    Retry,
    /// It was dropped before it ended: a losing hedge, a deadline, a cancelled call. With
    /// [`AttemptRecord::ended`]: the request cut the attempt off because another attempt continues
    /// alone.
    Cancelled,
}

/// One attempt and the decision that followed it.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The attempt number; the first is 1.
    pub number: u32,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// How far an attempt had come that was dropped before it ended, if a layer or the transport
    /// reported it.
    pub cut_off_in: Option<Stage>,
    /// The server's pushback.
    pub pushback: Option<ServerPushback>,
    /// The server's pushback could not be parsed and counted as none.
    pub pushback_unreadable: bool,
    /// The delay chosen before the next attempt.
    pub delay: Option<Duration>,
    /// The gate that refused a further attempt.
    pub stopped: Option<StopReason>,
    /// Where it was sent, if the transport reported it.
    pub backend: Option<Backend>,
    /// When it ended, if the clock was read (it is not for a success).
    pub ended: Option<Instant>,
    /// The throttle's fill after this attempt was counted, in thousandths of a token.
    pub milli_tokens: Option<u64>,
    /// A retry after this failure was paid for, by the throttle if there is one; also if that was
    /// refunded, because the retry was not sent.
    pub paid: bool,
}

/// All but the backend is copied as it is: half of the instructions of a derived clone, which looks
/// at each option.
impl Clone for AttemptRecord {
    fn clone(&self) -> Self {
        Self {
            backend: self.backend.clone(),
            ..*self
        }
    }
}

impl AttemptRecord {
    /// A record of an attempt that ended like this, and nothing more.
    #[must_use]
    pub const fn new(number: u32, kind: AttemptKind, outcome: AttemptOutcome) -> Self {
        Self {
            number,
            kind,
            outcome,
            failure: None,
            cut_off_in: None,
            pushback: None,
            pushback_unreadable: false,
            delay: None,
            stopped: None,
            backend: None,
            ended: None,
            milli_tokens: None,
            paid: false,
        }
    }
}
