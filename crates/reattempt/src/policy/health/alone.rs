//! A pool of one backend, which refuses instead of going elsewhere: a circuit breaker's.

use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use super::Outcome;
use super::pool::Pool;
use super::send::{Role, Sent};
use crate::sync::Ordering;

use Ordering::Relaxed;

impl Pool {
    /// Sends a trial to the only backend, if its ejection is over and no other trial is in flight
    /// (or that one hangs); any attempt if it is not ejected. Otherwise how long it is ejected.
    pub(super) fn admit(&self, now: Instant) -> Result<Sent, Duration> {
        let at = self.ticked(now);
        let member = &self.members[0];
        match self.common.ejected_until(member) {
            None => Ok(self.begin(0, at, Role::Regular, false)),
            Some(_) if self.common.take_probe(member, at) => {
                Ok(self.begin(0, at, Role::Probe, false))
            }
            Some(until) => Err(Duration::from_nanos(until.saturating_sub(at))),
        }
    }

    /// A trial at the only backend, if it is ejected and no other trial is in flight; `None` if it
    /// is not ejected. Otherwise how long it is.
    #[cfg(feature = "tokio")]
    pub(super) fn reserve(&self, now: impl FnOnce() -> Instant) -> Result<Option<Sent>, Duration> {
        if self.is_ejected() {
            self.admit(now()).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A reserved trial was not sent: the next request is one.
    #[cfg(feature = "tokio")]
    pub(super) fn unsent(&self, sent: Sent, now: Instant) {
        let member = &self.members[0];
        member.over();
        if sent.is_probe() {
            self.probed(
                member,
                self.common.nanos(now),
                &sent,
                Outcome::Dropped,
                false,
            );
        }
    }

    /// Whether this is the trial in flight.
    #[cfg(feature = "tokio")]
    pub(super) fn is_trial(&self, sent: &Sent) -> bool {
        sent.is_probe() && self.members[0].is_probed_since(sent.since)
    }

    pub(super) fn is_ejected(&self) -> bool {
        self.members[0].is_ejected()
    }

    pub(super) fn name(&self) -> Option<Arc<str>> {
        self.members[0].name()
    }

    /// Sends regardless of the state.
    pub(super) fn force(&self, now: Instant) -> Sent {
        let at = self.ticked(now);
        let role = if self.members[0].is_ejected() {
            Role::LastResort
        } else {
            Role::Regular
        };
        self.begin(0, at, role, false)
    }

    /// Does what is due by now.
    fn ticked(&self, now: Instant) -> u64 {
        let now = self.common.nanos(now);
        if now >= self.common.tick_at.load(Relaxed) {
            self.common.tick(now);
        }
        now
    }
}
