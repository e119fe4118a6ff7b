//! What the end of an attempt means for its backend.

use std::time::{Duration, Instant};

use super::Outcome;
use super::event::HealthCause;
use super::ledger::{Common, nanos};
use super::member::Member;
use super::pool::Pool;
use super::send::{Role, Sent};
use crate::sync::Ordering;

use Ordering::Relaxed;

/// The longest that a backend's pushback keeps load from it: a server decides on it.
const LONGEST_HOLD: Duration = Duration::from_secs(60);
/// An attempt that was dropped unanswered before its deadline is a failure after this many times
/// the usual latency. If no latency is known: after the policy's interval.
const UNANSWERED: u64 = 4;
/// So is one that lasted longer than usual, if the backend has answered nothing for this many of
/// the policy's intervals. Ten, because a caller may drop each of its attempts early for a few
/// seconds.
const SILENT_INTERVALS: u32 = 10;
/// One that its deadline ended counts as unanswered by a silent backend if it lasted for this part
/// of the usual latency.
const SHORTEST: u64 = 8;

impl Pool {
    /// An attempt is over: `hold` is for how long the server asked not to be used.
    // Always: see its use in `Backends`.
    #[inline(always)]
    pub fn ended(&self, sent: Sent, now: Instant, outcome: Outcome, hold: Option<Duration>) {
        let Some(member) = self.members.get(sent.at) else {
            return;
        };
        let now = self.common.nanos(now);
        let took = now.saturating_sub(sent.since);
        let mut is_failure = false;
        if outcome == Outcome::Success {
            member.succeeded();
            self.answered(member, took);
        } else {
            member.over();
            let common = &self.common;
            is_failure = common.unsuccessful(member, sent.since, now, took, outcome);
        }
        if sent.role != Role::Regular {
            // What never left the client has tried nothing: another trial may follow.
            let has_failed = is_failure && outcome != Outcome::NeverSent;
            self.probed(member, now, &sent, outcome, has_failed);
        }
        self.hold(member, now, hold);
    }

    /// An attempt is no longer in flight, and its answer took this long.
    #[inline]
    pub(super) fn answered(&self, member: &Member, took: u64) {
        member.over();
        if !member.took(took) {
            self.common.is_usual_at_first(took);
        }
    }

    /// The server asked not to be used for this long.
    #[inline]
    pub(super) fn hold(&self, member: &Member, now: u64, hold: Option<Duration>) {
        if let Some(hold) = hold {
            let hold = nanos(hold.min(LONGEST_HOLD));
            let until = now.saturating_add(hold);
            member.hold(until);
            self.common.one_is_held(until);
        }
    }

    #[cold]
    pub(super) fn probed(
        &self,
        member: &Member,
        now: u64,
        sent: &Sent,
        outcome: Outcome,
        is_failure: bool,
    ) {
        let common = &self.common;
        common.with_ledger(|ledger| {
            // One that hung for so long that another probe took its place decides nothing but that
            // the backend is back.
            let is_own = sent.role == Role::Probe && member.is_probed_since(sent.since);
            if member.is_ejected() && !member.is_gone() {
                if outcome == Outcome::Success {
                    common.uneject(ledger, member, now, HealthCause::Answered);
                } else if is_own && common.by_trial && is_failure {
                    common.eject_again(ledger, member, now, HealthCause::FailedTrial);
                } else if is_own {
                    member.probed(now);
                }
            }
            if is_own {
                member.probe_over();
            }
        });
    }
}

impl Common {
    /// The first answer of all is the usual one, until the next tick knows more.
    #[cold]
    fn is_usual_at_first(&self, took: u64) {
        let _ = self
            .usual
            .compare_exchange(0, took.max(1), Relaxed, Relaxed);
    }

    /// Whether it counts as a failure. Not of an attempt that was sent before the backend returned:
    /// it says nothing of now. A drop does if the silence before it was long, which at its
    /// deadline is any silence longer than usual; or if all attempts at the backend have been
    /// unanswered for long.
    #[cold]
    pub(super) fn unsuccessful(
        &self,
        member: &Member,
        sent: u64,
        now: u64,
        took: u64,
        outcome: Outcome,
    ) -> bool {
        // In this order: it may return at this instant.
        let is_ejected = member.is_ejected();
        let is_old = member.returned_at() > sent;
        if outcome == Outcome::Nothing || is_old {
            return false;
        }
        let usual = self.usual.load(Relaxed);
        let unanswered = usual.saturating_mul(UNANSWERED);
        member.took_at_least(took);
        let is_usual = match outcome {
            Outcome::Success
            | Outcome::Failure
            | Outcome::NeverSent
            | Outcome::Lost
            | Outcome::Nothing => false,
            Outcome::Dropped | Outcome::TimedOut => {
                let interval = self.policy.load().interval;
                let long = nanos(interval.saturating_mul(SILENT_INTERVALS)).max(unanswered);
                // Before the first answer of all there is nothing that a pause could hide.
                let pause = if usual == 0 { u64::MAX } else { long };
                let silent = member.silent_for(sent, now, pause);
                match (outcome, usual) {
                    // How long an answer takes is not known yet: the first connections are made.
                    (Outcome::Dropped, 0) => took <= nanos(interval),
                    (Outcome::Dropped, _) => {
                        took <= unanswered && (took <= usual || silent <= long)
                    }
                    (_, 0) => silent <= nanos(interval),
                    // With next to no time left an attempt says nothing of a silent backend either.
                    _ if took < usual / SHORTEST => true,
                    _ => took <= usual && silent <= nanos(interval).max(usual),
                }
            }
        };
        if is_usual {
            return false;
        }
        member.failed();
        if outcome == Outcome::NeverSent {
            return true;
        }
        let lost_since = (outcome == Outcome::Lost).then_some(sent);
        if is_ejected || !self.failed_again(member, lost_since, now) {
            // One that fails at once is not a fast one.
            member.took_at_least(unanswered);
        }
        true
    }
}
