//! Transparent retries: failures that the server's application never saw (A6, Transparent Retries).

use std::time::Duration;

use crate::{MOST_RECORDS, Transparent};

/// So many attempts that never left the client are made when a deadline ends the call in time.
const MOST_WITH_DEADLINE: u32 = 1000;
/// So many where nothing else would end it.
const MOST_WITHOUT: u32 = 5;
/// So many of them are sent again at once (after yielding) before a small back-off begins.
const AT_ONCE: u32 = 3;
const FIRST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_millis(100);

/// What one call has used of its transparent retries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransparentRetries {
    never_sent: u32,
    /// Moves to a backend that was not tried.
    moved: u8,
    unseen: bool,
}

impl TransparentRetries {
    /// The delay before a transparent retry, or `None` when the policy has to decide.
    pub(super) fn next(&mut self, transparent: Transparent, deadline: bool) -> Option<Duration> {
        match transparent {
            // Whether it was unread is known by now.
            Transparent::No | Transparent::IfUnread => None,
            // Never waits: another backend may be there at once.
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
