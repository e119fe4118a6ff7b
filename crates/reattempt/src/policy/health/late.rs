//! An attempt whose response has begun, and whose status comes with its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Outcome;
use super::ledger::{Common, nanos};
use super::member::Member;
use super::pool::Pool;
use super::send::{Role, Sent};
use crate::clock;

/// What is left of an attempt once its response has begun: it is no longer in flight, and what it
/// took is known. Dropped before its end, it is neither a success nor a failure. If it lasted for
/// longer than the policy's interval, and nothing failed meanwhile, it ends a run of failures: else
/// of streams that are always dropped five that break, an hour apart, would be five in a row.
#[derive(Debug)]
pub(crate) struct Open {
    common: Arc<Common>,
    member: Arc<Member>,
    since: u64,
    /// Failures in a row when it began. Others that came since say more than its drop.
    in_a_row: u32,
    has_ended: bool,
}

impl Pool {
    /// The response of an attempt has begun, and its end will say whether it succeeded: `None` if
    /// the pool has no such backend. A probe or a trial has brought its backend back; a failure at
    /// the end takes it away again, while failures in a row eject, because a stream may last for
    /// hours.
    pub(crate) fn begun(&self, sent: Sent, now: Instant, hold: Option<Duration>) -> Option<Open> {
        let member = Arc::clone(self.members.get(sent.at)?);
        let since = self.common.nanos(now);
        self.answered(&member, since.saturating_sub(sent.since));
        if sent.role != Role::Regular {
            self.probed(&member, since, &sent, Outcome::Success, false);
            if member.returned_at() == since {
                member.begin_with(self.common.policy.load().failures_in_doubt());
            }
        }
        self.hold(&member, since, hold);
        Some(Open {
            common: Arc::clone(&self.common),
            in_a_row: member.in_a_row(),
            member,
            since,
            has_ended: false,
        })
    }
}

impl Open {
    /// The response ended.
    pub(crate) fn ended(mut self, now: Instant, outcome: Outcome) {
        self.has_ended = true;
        let Self { common, member, .. } = &self;
        if outcome == Outcome::Success {
            member.succeeded();
        } else {
            // How long the stream was says nothing of how long an answer takes.
            common.unsuccessful(member, self.since, common.nanos(now), 0, outcome);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Self { member, since, .. } = self;
        let is_of_now = member.returned_at() <= *since && member.in_a_row() == self.in_a_row;
        if !self.has_ended && member.is_failing() && is_of_now {
            let lasted = self.common.nanos(clock::now()).saturating_sub(*since);
            if lasted > nanos(self.common.policy.load().interval) {
                member.begin_with(0);
            }
        }
    }
}
