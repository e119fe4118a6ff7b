//! What both machines do when an attempt ends: count it, record it, call the observer.

use std::time::{Duration, Instant};

use crate::call::block::CallBlock;
use crate::info::AttemptRecord;
use crate::policy::throttle::Settled;
use crate::{
    AttemptOutcome, CallContext, Failure, Findings, Observer, RetryThrottle, ServerPushback, Stage,
    Stopped, Transparent, Verdict,
};

/// Maximum number of retries of one call that are sent at once because a newer configuration moved
/// the key. The reason always retries, so a cluster that moves the key with every response would
/// otherwise receive requests without delay, forever.
pub(super) const MOST_NUDGED: u32 = 16;

/// The environment of a decision: the attempt's context and the layer's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// The context of the attempt that ended.
    pub context: &'a CallContext,
    /// Whether the request could be sent once more.
    pub replayable: bool,
    /// Whether transparent retries are enabled.
    pub transparent: bool,
    /// The observer, if one is set.
    pub observer: Option<&'a dyn Observer>,
}

impl<'a> Env<'a> {
    /// An environment with transparent retries and without an observer, for a replayable request.
    #[must_use]
    pub const fn new(context: &'a CallContext) -> Self {
        Self {
            context,
            replayable: true,
            transparent: true,
            observer: None,
        }
    }

    pub(super) fn throttle(&self) -> Option<&'a dyn RetryThrottle> {
        self.context.throttle().map(|throttle| &**throttle)
    }

    /// Whether the throttle allows one more attempt. `None` is a hedge sent after its delay.
    pub(super) fn allows(&self, failure: Option<&Failure>) -> bool {
        self.throttle()
            .is_none_or(|throttle| throttle.allows(failure))
    }

    /// Spends throttle tokens for an attempt that is about to be sent, and stores the failure it
    /// follows.
    pub(super) fn spend(&self, failure: Option<&Failure>) -> bool {
        let Some(throttle) = self.throttle() else {
            return true;
        };
        let spent = throttle.spend(failure);
        if let (true, Some(failure), Some(block)) = (spent, failure, self.context.shared()) {
            block.permitted(failure);
        }
        spent
    }

    /// Refunds what was spent for a retry that was not sent.
    pub(super) fn refund(&self) {
        let spent_after = self.context.shared().and_then(CallBlock::last_permitted);
        if let (Some(failure), Some(throttle)) = (spent_after, self.throttle()) {
            throttle.refund(Some(&failure));
        }
    }

    /// Call it for an attempt that succeeded or whose response is committed. Reads no clock, and
    /// writes only two atomics on the first attempt of an unobserved call.
    #[inline]
    pub fn succeeded(&self, committed: bool) {
        let sees = |observer: &&dyn Observer| observer.sees_success();
        // The first of several attempts may win too, and then the losers' records need the winner's
        // record.
        let one_of_several = self.context.shared().is_some_and(CallBlock::sent_several);
        if one_of_several {
            self.context.settle_recovery(committed);
        } else {
            self.context.settle_success(committed);
        }
        if one_of_several || self.observer.as_ref().is_some_and(sees) {
            self.record_success(committed);
        }
    }

    #[cold]
    fn record_success(&self, committed: bool) {
        let (outcome, stopped) = if committed {
            (AttemptOutcome::Committed, Stopped::Committed)
        } else {
            (AttemptOutcome::Success, Stopped::Success)
        };
        if self.context.shared().is_some() {
            let mut record = self.blank(outcome);
            record.stopped = Some(stopped);
            self.write(record);
            self.ended(stopped);
        }
    }

    /// Call it for a call that no recovery layer acted on: it is counted and recorded too (A6:
    /// every outgoing RPC changes the token count).
    pub fn passed(&self, now: Instant, verdict: &Verdict, found: Findings) {
        // Several layers may have passed it through; the innermost one counts it, before the others
        // check.
        if let Some(block) = self.context.shared() {
            block.claim();
        }
        match Settlement::of(now, verdict, found) {
            None => self.succeeded(*verdict == Verdict::Committed),
            Some(mut settled) => {
                let stopped = if settled.retryable {
                    Stopped::Strategy
                } else {
                    Stopped::Fatal
                };
                settled.count(self);
                settled.record(self, None, Some(stopped));
                self.ended(stopped);
            }
        }
    }

    /// Why a call is dropped at this instant: the deadline passed, or the caller dropped it.
    #[must_use]
    pub fn why_dropped(&self, now: Instant) -> Stopped {
        match self.context.limit() {
            Some(limit) if limit.enforced && limit.passed(now) => Stopped::Deadline,
            _ => Stopped::Cancelled,
        }
    }

    /// Call it for an attempt that was dropped before it ended.
    pub fn cancelled(&self, stopped: Option<Stopped>) {
        let Some(block) = self.context.shared() else {
            return;
        };
        block.settled(self.context.seat());
        let mut record = self.blank(AttemptOutcome::Cancelled);
        record.stopped = stopped;
        self.write(record);
    }

    /// A planned attempt was refused. No record exists for it, so it is counted here.
    pub(super) fn refused(&self, stopped: Stopped) {
        if let Some(block) = self.context.shared() {
            block.refused(stopped);
        }
        if let Some(observer) = self.observer {
            observer.hedge_refused(self.context, stopped);
        }
    }

    /// The wait after this failed attempt ended early: its record stores the time actually waited.
    pub(super) fn waited_until(&self, now: Instant) {
        if let Some(block) = self.context.shared() {
            block.amend(self.context.attempt(), |record| {
                if let (Some(_), Some(ended)) = (record.delay, record.ended) {
                    record.delay = Some(now.saturating_duration_since(ended));
                }
            });
        }
    }

    /// The call ends with this reason, which replaces what a recovery layer decided before.
    pub fn ended(&self, stopped: Stopped) {
        let Some(block) = self.context.shared() else {
            return;
        };
        block.stop(stopped);
        if block.is_logged() {
            block.drop_waiters();
        }
        if let Some(observer) = self.observer {
            observer.call_ended(self.context, &block.info());
        }
    }

    fn blank(&self, outcome: AttemptOutcome) -> AttemptRecord {
        let mut record = AttemptRecord::new(self.context.attempt(), self.context.kind(), outcome);
        record.backend = self.context.backend();
        record
    }

    fn write(&self, record: AttemptRecord) {
        if let Some(observer) = self.observer {
            observer.attempt_settled(self.context, &record);
        }
        if let Some(block) = self.context.shared() {
            // A fatal failure is not a retry reason.
            let retryable = record.outcome == AttemptOutcome::Retry;
            let reason = record
                .failure
                .filter(|_| retryable)
                .map(|failure| failure.reason);
            block.record(record, reason);
        }
    }
}

/// The longest server delay that a call without a deadline waits for. Longer ones mean stop.
const LONGEST_PUSHBACK: Duration = Duration::from_secs(24 * 60 * 60);

/// A failed attempt with its report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settlement {
    pub(super) failure: Failure,
    pub(super) retryable: bool,
    /// A transparent retry follows, independent of the policy.
    pub(super) mended: bool,
    pub(super) pushback: Option<ServerPushback>,
    pushback_unreadable: bool,
    pub(super) forbidden: bool,
    pub(super) config_coming: bool,
    /// The request cut the attempt off: it is a loser, whatever verdict its error has.
    config_moved: bool,
    pub(super) cut_off: bool,
    now: Instant,
    milli_tokens: Option<u64>,
}

impl Settlement {
    /// `None` for a verdict that is not a failure.
    pub(super) fn of(now: Instant, verdict: &Verdict, found: Findings) -> Option<Self> {
        let (failure, retryable) = match *verdict {
            Verdict::Success | Verdict::Committed => return None,
            Verdict::Fatal(failure) => (failure, false),
            Verdict::Retry(failure) => (failure, true),
        };
        let mut settlement = Self {
            failure,
            retryable,
            mended: false,
            pushback: found.pushback,
            pushback_unreadable: found.pushback_unreadable,
            forbidden: found.forbidden,
            config_coming: found.config_coming,
            config_moved: found.config_moved,
            cut_off: found.cut_off,
            now,
            milli_tokens: None,
        };
        settlement.failure.transparent = match failure.transparent {
            Transparent::IfUnread if found.unread => Transparent::Unlimited,
            Transparent::IfUnread => Transparent::No,
            Transparent::NextBackend if !found.untried_backend => Transparent::No,
            known => known,
        };
        let unread = failure.transparent == Transparent::IfUnread && found.unread;
        if let Some(stage) = Self::stage(failure.stage, unread, &found) {
            if let (Stage::Dispatch, Stage::InFlight | Stage::Response)
            | (Stage::Response, Stage::InFlight) = (failure.stage, stage)
            {
                // It did leave the client, or the response that made it safe did not come from a
                // server.
                settlement.failure.safe = failure.reason.allows_non_idempotent_retry();
            }
            settlement.failure.stage = stage;
            // A transport that knows that nothing left the client overrides any reason.
            settlement.failure.safe |= stage == Stage::Dispatch;
        }
        Some(settlement)
    }

    /// The stage that replaces the classifier's, if any. A server's response is final: an earlier
    /// report by a transport does not make the request safe to send again.
    fn stage(classified: Stage, unread: bool, found: &Findings) -> Option<Stage> {
        if found.own_answer {
            return Some(found.stage.unwrap_or(Stage::InFlight));
        }
        match classified {
            Stage::Response => None,
            _ if unread => Some(Stage::Dispatch),
            _ => found.stage,
        }
    }

    /// The server, or a layer on its behalf, allows no further attempt of this call.
    pub(super) fn is_stop(&self, env: &Env<'_>) -> bool {
        match self.pushback {
            _ if self.forbidden => true,
            Some(ServerPushback::Stop) => true,
            // Without a deadline a server could make the call wait for years. With one, the delay
            // is compared with the deadline like any other.
            Some(ServerPushback::After(asked)) => {
                asked > LONGEST_PUSHBACK && env.context.limit().is_none()
            }
            None => false,
        }
    }

    /// Whether a newer configuration may end this delay early. A server-provided delay is exact
    /// (A6, Pushback) and is never shortened.
    pub(super) fn may_nudge(&self, delay: Duration) -> bool {
        self.config_coming && self.pushback.is_none() && !delay.is_zero()
    }

    /// Whether a newer configuration has already moved the call's target. Then there is no wait,
    /// except for server pushback.
    pub(super) fn goes_at_once(&self, retries: u32) -> bool {
        self.config_moved && self.pushback.is_none() && retries < MOST_NUDGED
    }

    /// True if an always-retry reason decides, independent of strategy, throttle and idempotency.
    pub(super) fn is_forced(&self) -> bool {
        self.retryable && self.failure.reason.always_retry()
    }

    /// Counts it in the throttle: retryable failures, and any failure with a stop (A6, Throttling).
    pub(super) fn count(&mut self, env: &Env<'_>) {
        let counts = self.retryable || self.pushback == Some(ServerPushback::Stop);
        if let Some(throttle) = env.throttle() {
            if counts && !self.is_forced() {
                throttle.settled(Settled::Failure(&self.failure));
            }
            self.milli_tokens = throttle.milli_tokens();
        }
    }

    pub(super) fn record(&self, env: &Env<'_>, delay: Option<Duration>, stopped: Option<Stopped>) {
        let outcome = if self.cut_off {
            AttemptOutcome::Cancelled
        } else if self.retryable || self.mended {
            AttemptOutcome::Retry
        } else {
            AttemptOutcome::Fatal
        };
        let mut record = env.blank(outcome);
        // An attempt that was cut off has no failure.
        record.failure = (!self.cut_off).then_some(self.failure);
        record.pushback = self.pushback;
        record.pushback_unreadable = self.pushback_unreadable;
        record.delay = delay;
        record.stopped = stopped;
        record.ended = Some(self.now);
        record.milli_tokens = self.milli_tokens;
        env.write(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::reason::{KV_LOCKED, UNKNOWN};

    fn safe(failure: Failure, seen: Stage) -> bool {
        #[allow(
            clippy::disallowed_methods,
            reason = "a base for arithmetic; no time passes here"
        )]
        let now = Instant::now();
        let found = Findings {
            stage: Some(seen),
            ..Findings::default()
        };
        let settled = Settlement::of(now, &Verdict::Retry(failure), found);
        settled.is_some_and(|settled| settled.failure.safe)
    }

    #[test]
    fn an_attempt_that_left_is_only_as_safe_as_its_reason() {
        let never_sent = |reason| Failure::new(reason, Stage::Dispatch).safe(true);
        assert!(safe(never_sent(UNKNOWN), Stage::Dispatch));
        assert!(!safe(never_sent(UNKNOWN), Stage::InFlight));
        assert!(!safe(never_sent(UNKNOWN), Stage::Response));
        assert!(safe(never_sent(KV_LOCKED), Stage::InFlight));
        let said = Failure::new(UNKNOWN, Stage::Response).safe(true);
        assert!(safe(said, Stage::Response), "the classifier said so");
    }
}
