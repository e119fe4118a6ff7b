//! An attempt that failed: what is known of it, and the facts that every decision reads.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::transparent::TransparentRetries;
use crate::failure::reason::{CIRCUIT_BREAKER_OPEN, ReasonClass, UNKNOWN};
use crate::info::AttemptRecord;
use crate::policy::AttemptEnd;
#[cfg(doc)]
use crate::policy::HedgeDelay;
use crate::{
    AttemptKind, AttemptOutcome, AttemptReport, CallDeadline, Failure, OnDeadline, ServerPushback,
    Stage, StopReason, Transparent, Verdict,
};

/// At most this many retries of one call are sent at once because a newer configuration moved the
/// key. A cluster that moves it with every response would otherwise receive requests at the speed
/// of the network without an end: the reason always retries.
pub(super) const MOST_NUDGED: u32 = 16;

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
        failure.transparent = match failure.transparent {
            Transparent::IfUnread if facts.unread => Transparent::Unlimited,
            Transparent::IfUnread => Transparent::No,
            Transparent::NextBackend if !facts.report.untried_backend => Transparent::No,
            known => known,
        };
        let unread = classified.transparent == Transparent::IfUnread && facts.unread;
        if let Some(stage) = stage(failure.stage, unread, &facts.report) {
            if let (Stage::Dispatch, Stage::InFlight | Stage::Response)
            | (Stage::Response, Stage::InFlight) = (failure.stage, stage)
            {
                // It left the client after all, or the response that made it safe is not the
                // server's. A reason that says "never sent" is no permission then.
                let reason = failure.reason;
                let unsent = matches!(reason.class(), ReasonClass::Unsent | ReasonClass::Request);
                failure.safe = reason.allows_non_idempotent_retry() && !unsent;
                if failure.stage == Stage::Dispatch {
                    failure.transparent = Transparent::No;
                }
            }
            failure.stage = stage;
            // A transport that reports that nothing left the client knows more than any reason.
            failure.safe |= stage == Stage::Dispatch;
        }
        Some(Self::known(facts, failure, retryable))
    }

    /// An attempt in flight that can go no further, because another one goes on alone.
    #[must_use]
    pub fn of_cut_off(mut facts: Facts) -> Self {
        facts.cut_off = true;
        let stage = facts.report.stage.unwrap_or(Stage::InFlight);
        Self::known(&facts, Failure::new(UNKNOWN, stage), false)
    }

    fn known(facts: &Facts, mut failure: Failure, retryable: bool) -> Self {
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

    /// An attempt that a circuit breaker refused. It may go to another backend, at once to one that
    /// was not tried. Without another one it is not retryable, unless its protocol `waits` for the
    /// circuit to close.
    fn refused(facts: &Facts, code: Option<i32>, waits: bool) -> Self {
        let transparent = if facts.report.untried_backend {
            Transparent::NextBackend
        } else {
            Transparent::No
        };
        let mut failure = Failure::new(CIRCUIT_BREAKER_OPEN, Stage::Dispatch);
        (failure.code, failure.transparent) = (code, transparent);
        Self::known(facts, failure, waits || facts.other_backend)
    }

    /// Uses up a transparent retry, if one is left for this failure and the server did not say
    /// stop.
    pub(super) fn use_transparent(&mut self, left: &mut TransparentRetries) {
        let facts = &self.facts;
        if facts.transparent && facts.replayable && !self.is_stop() {
            self.transparent = left.next(self.failure.transparent, facts.deadline.is_some());
            if self.transparent.is_some() {
                self.record.outcome = AttemptOutcome::Retry;
            }
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

    /// Whether the throttle has a part in it: not in one that was cut off or is retried
    /// transparently.
    #[must_use]
    pub const fn is_for_throttle(&self) -> bool {
        !self.facts.cut_off && self.transparent.is_none()
    }

    /// The server answered the request, and not that it failed: "not found", for example.
    pub(crate) fn is_final_answer(&self) -> bool {
        self.failure.is_answer() && self.is_for_throttle() && !self.counts()
    }

    /// Whether the throttle counts it: retryable failures, and any with a "do not retry" (A6,
    /// Throttling), unless a transparent or an always-retry reason decides.
    #[must_use]
    pub fn counts(&self) -> bool {
        let stop = self.facts.report.pushback == Some(ServerPushback::Stop);
        // An open circuit says nothing that the failures which opened it have not said.
        let counted = self.retryable && !self.facts.report.circuit_open || stop;
        counted && self.is_for_throttle() && !self.is_forced()
    }

    /// A circuit breaker refused it. The throttle does not count that, and is asked for what
    /// follows unless that is transparent.
    pub(crate) fn was_refused(&self) -> bool {
        self.facts.report.circuit_open && self.is_for_throttle()
    }

    /// How it ended for a hedge delay that learns ([`HedgeDelay::ended`]); `None` if it never left
    /// the client, because then it says nothing of how long the server takes.
    #[must_use]
    pub fn learned(&self) -> Option<AttemptEnd> {
        match self.failure.stage {
            _ if self.facts.cut_off => Some(AttemptEnd::Dropped),
            Stage::Dispatch => None,
            Stage::InFlight | Stage::Response => Some(AttemptEnd::Failed),
        }
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

    /// Whether a newer configuration may end this delay early. A pushback is exact (A6, Pushback).
    pub(super) fn may_nudge(&self, delay: Duration) -> bool {
        self.facts.report.config_coming && self.facts.report.pushback.is_none() && !delay.is_zero()
    }

    /// Whether a newer configuration has already moved what the call is about. Then there is no
    /// delay but a pushback.
    pub(super) fn goes_at_once(&self, retries: u32) -> bool {
        self.facts.config_moved && self.facts.report.pushback.is_none() && retries < MOST_NUDGED
    }

    /// Whether an always-retry reason decides, past strategy, throttle and idempotency.
    pub(super) fn is_forced(&self) -> bool {
        self.retryable && self.failure.reason.always_retry()
    }
}

/// The stage that replaces the classifier's, if one does. A server's response is final: what a
/// transport reported before it does not make the request safe to send again.
fn stage(classified: Stage, unread: bool, report: &AttemptReport) -> Option<Stage> {
    if report.own_answer {
        return Some(report.stage.unwrap_or(Stage::InFlight));
    }
    match classified {
        Stage::Response => None,
        _ if unread => Some(Stage::Dispatch),
        _ => report.stage,
    }
}
