//! Transparent retries: failures that the server's application never saw (A6, Transparent Retries).

use std::time::Duration;

use crate::attempt::FailedAttempt;
use crate::{AttemptOutcome, MOST_RECORDS, Transparent};

/// Maximum number of attempts that never left the client if the call has a deadline.
const MOST_WITH_DEADLINE: u32 = 1000;
/// Maximum number if it has none.
const MOST_WITHOUT: u32 = 5;
/// Number of retries sent at once (after yielding) before a small back-off starts.
const AT_ONCE: u32 = 3;
const FIRST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_millis(100);

/// The transparent retries that one call has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransparentRetries {
    never_sent: u32,
    /// Moves to an untried backend.
    moved: u8,
    unseen: bool,
}

impl TransparentRetries {
    /// The delay before a transparent retry, or `None` if the policy decides.
    pub(super) fn next(&mut self, transparent: Transparent, deadline: bool) -> Option<Duration> {
        match transparent {
            // `FailedAttempt::new` has resolved whether the body was unread.
            Transparent::No | Transparent::IfUnread => None,
            // No delay: another backend may be available at once.
            Transparent::NextBackend => {
                self.moved = self.moved.saturating_add(1);
                (usize::from(self.moved) <= MOST_RECORDS).then_some(Duration::ZERO)
            }
            Transparent::Once => {
                (!std::mem::replace(&mut self.unseen, true)).then_some(Duration::ZERO)
            }
            Transparent::Unlimited => {
                let most = if deadline {
                    MOST_WITH_DEADLINE
                } else {
                    MOST_WITHOUT
                };
                if self.never_sent >= most {
                    return None;
                }
                let made = self.never_sent;
                self.never_sent += 1;
                Some(match made.checked_sub(AT_ONCE) {
                    None => Duration::ZERO,
                    Some(steps) => FIRST_DELAY
                        .saturating_mul(1 << steps.min(10))
                        .min(LONGEST_DELAY),
                })
            }
        }
    }
}

impl FailedAttempt {
    /// Uses up a transparent retry, if one is left for this failure and the server did not say
    /// stop.
    pub(super) fn use_transparent(&mut self, left: &mut TransparentRetries) {
        let facts = &self.facts;
        if facts.transparent && facts.replayable && !self.is_stop() {
            self.transparent_delay = left.next(self.failure.transparent, facts.deadline.is_some());
            if self.transparent_delay.is_some() {
                self.record.outcome = AttemptOutcome::Retry;
            }
        }
    }
}
