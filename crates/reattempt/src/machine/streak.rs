//! Consecutive failures of one kind, for strategies.

use std::time::Instant;

use crate::{Failure, RetryReason};

/// Consecutive failures with one code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    code: Option<i32>,
    reason: RetryReason,
    pub(super) since: Instant,
    pub(super) count: u32,
}

impl Streak {
    /// One more failure: it continues the streak, or begins one.
    pub(super) fn follow(last: &mut Option<Self>, now: Instant, failure: &Failure) {
        let same = |streak: &&mut Self| {
            streak.code == failure.code
                && (failure.code.is_some() || streak.reason == failure.reason)
        };
        match last.as_mut().filter(same) {
            Some(streak) => streak.count = streak.count.saturating_add(1),
            None => {
                *last = Some(Self {
                    code: failure.code,
                    reason: failure.reason,
                    since: now,
                    count: 1,
                });
            }
        }
    }
}
