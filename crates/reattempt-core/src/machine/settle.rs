//! What both machines do with an attempt that ended: count it, record it, tell the observer.

use std::time::{Duration, Instant};

use crate::block::CallBlock;
use crate::info::AttemptRecord;
use crate::throttle::Settled;
use crate::{
    AttemptOutcome, CallContext, Failure, Findings, Observer, RetryThrottle, ServerPushback, Stage,
    Stopped, Transparent, Verdict,
};

/// So many retries of one call may be sent at once because a newer configuration moved the key. A
/// cluster that moves it with every answer would otherwise be asked at the speed of the network,
/// for ever: the reason always retries.
pub(super) const MOST_NUDGED: u32 = 16;

/// What surrounds a decision: the attempt's context and what the layer was built with.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// The context of the attempt that ended.
    pub context: &'a CallContext,
    /// Could the request be sent once more?
    pub replayable: bool,
    /// Are transparent retries switched on?
    pub transparent: bool,
    /// Who is told.
    pub observer: Option<&'a dyn Observer>,
}

impl<'a> Env<'a> {
    /// An environment with transparent retries, for a request that can be replayed, unobserved.
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

    /// Would the throttle let one more attempt through? `None` is a hedge that time sends.
    pub(super) fn allows(&self, failure: Option<&Failure>) -> bool {
        self.throttle()
            .is_none_or(|throttle| throttle.allows(failure))
    }

    /// Has the throttle pay for an attempt that is about to be sent, and notes what it paid after.
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

    /// Gives back what was spent for a retry that was not sent.
    pub(super) fn refund(&self) {
        let spent_after = self.context.shared().and_then(CallBlock::last_permitted);
        if let (Some(failure), Some(throttle)) = (spent_after, self.throttle()) {
            throttle.refund(Some(&failure));
        }
    }

    /// Told of an attempt that worked or whose answer began. Reads no clock, and on the first
    /// attempt of an unobserved call writes nothing but two atomics.
    #[inline]
    pub fn succeeded(&self, committed: bool) {
        let sees = |observer: &&dyn Observer| observer.sees_success();
        // The first attempt of several may win too, and then the losers' records need the winner's
        // beside them.
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

    /// Told of a call that no recovery layer acted on: it is counted and recorded all the same
    /// (A6: every outgoing RPC changes the token count).
    pub fn passed(&self, now: Instant, verdict: &Verdict, found: Findings) {
        // Several layers may have passed it through; the innermost counts it, before the others
        // look.
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

    /// Why a call is dropped at this instant: by the deadline, or else by its caller.
    #[must_use]
    pub fn why_dropped(&self, now: Instant) -> Stopped {
        match self.context.limit() {
            Some(limit) if limit.enforced && limit.passed(now) => Stopped::Deadline,
            _ => Stopped::Cancelled,
        }
    }

    /// Told of an attempt that was dropped before it ended.
    pub fn cancelled(&self, stopped: Option<Stopped>) {
        let Some(block) = self.context.shared() else {
            return;
        };
        block.settled(self.context.seat());
        let mut record = self.blank(AttemptOutcome::Cancelled);
        record.stopped = stopped;
        self.write(record);
    }

    /// A planned attempt was held back: nobody else would ever hear of it.
    pub(super) fn refused(&self, stopped: Stopped) {
        if let Some(block) = self.context.shared() {
            block.refused(stopped);
        }
        if let Some(observer) = self.observer {
            observer.hedge_refused(self.context, stopped);
        }
    }

    /// The wait after this failed attempt ended early: its record says what was really waited.
    pub(super) fn waited_until(&self, now: Instant) {
        if let Some(block) = self.context.shared() {
            block.amend(self.context.attempt(), |record| {
                if let (Some(_), Some(ended)) = (record.delay, record.ended) {
                    record.delay = Some(now.saturating_duration_since(ended));
                }
            });
        }
    }

    /// The call ends here for this reason, whatever a recovery layer had decided before.
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
            // A final failure is no reason to retry.
            let retryable = record.outcome == AttemptOutcome::Retry;
            let reason = record
                .failure
                .filter(|_| retryable)
                .map(|failure| failure.reason);
            block.record(record, reason);
        }
    }
}

/// The longest delay of a server's that a call without a deadline waits for. Longer ones mean stop.
const LONGEST_PUSHBACK: Duration = Duration::from_secs(24 * 60 * 60);

/// An attempt that failed, with what inner layers found in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settlement {
    pub(super) failure: Failure,
    pub(super) retryable: bool,
    /// A transparent retry mends it, whatever its policy says.
    pub(super) mended: bool,
    pub(super) pushback: Option<ServerPushback>,
    pushback_unreadable: bool,
    pub(super) forbidden: bool,
    pub(super) config_coming: bool,
    /// The request itself broke it off: a loser, whatever the classifier says of its error.
    config_moved: bool,
    pub(super) cut_off: bool,
    now: Instant,
    milli_tokens: Option<u64>,
}

impl Settlement {
    /// `None` for a verdict that is no failure.
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
                // It left the client after all, or the answer that made it safe is no server's.
                settlement.failure.safe = failure.reason.allows_non_idempotent_retry();
            }
            settlement.failure.stage = stage;
            // A transport that knows that nothing left the client knows more than any reason.
            settlement.failure.safe |= stage == Stage::Dispatch;
        }
        Some(settlement)
    }

    /// The stage that takes the place of the classifier's, if one does. A server's answer is final:
    /// what a transport reported before it does not make the request safe to send again.
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

    /// The server (or a layer that speaks for it) wants no further attempt of this call.
    pub(super) fn is_stop(&self, env: &Env<'_>) -> bool {
        match self.pushback {
            _ if self.forbidden => true,
            Some(ServerPushback::Stop) => true,
            // Without a deadline a server could have the call wait for years. With one the delay is
            // held against that, as any other.
            Some(ServerPushback::After(asked)) => {
                asked > LONGEST_PUSHBACK && env.context.limit().is_none()
            }
            None => false,
        }
    }

    /// May a newer configuration end this delay early? A server's own is exact (A6, Pushback): none
    /// cuts it short.
    pub(super) fn may_nudge(&self, delay: Duration) -> bool {
        self.config_coming && self.pushback.is_none() && !delay.is_zero()
    }

    /// Has a newer configuration moved what the call is about already? Then nothing is waited for,
    /// but what the server itself asked for.
    pub(super) fn goes_at_once(&self, retries: u32) -> bool {
        self.config_moved && self.pushback.is_none() && retries < MOST_NUDGED
    }

    /// True when an always-retry reason decides, past strategy, throttle and idempotency.
    pub(super) fn is_forced(&self) -> bool {
        self.retryable && self.failure.reason.always_retry()
    }

    /// Counts it in the throttle: retryable failures, and any with a "do not retry" (A6,
    /// Throttling).
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
        // What broke off a loser is nobody's failure.
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
    use crate::reason::{KV_LOCKED, UNKNOWN};

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
    fn an_attempt_that_was_seen_to_leave_is_only_as_safe_as_its_reason() {
        let never_sent = |reason| Failure::new(reason, Stage::Dispatch).safe(true);
        assert!(safe(never_sent(UNKNOWN), Stage::Dispatch));
        assert!(!safe(never_sent(UNKNOWN), Stage::InFlight));
        assert!(!safe(never_sent(UNKNOWN), Stage::Response));
        assert!(safe(never_sent(KV_LOCKED), Stage::InFlight));
        let said = Failure::new(UNKNOWN, Stage::Response).safe(true);
        assert!(safe(said, Stage::Response), "the classifier said so");
    }
}
