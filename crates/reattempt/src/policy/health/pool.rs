//! The backends of one list and their health.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Status;
use super::event::{HealthEvent, Listeners};
use super::ledger::{Common, Ledger, TICK, nanos};
use super::live::LiveHealthPolicy;
use super::member::Member;
use crate::sync::{AtomicU64, Mutex, Ordering};

use Ordering::Relaxed;

/// The backends of one list and their health.
///
/// [`send`](Self::send) chooses one for an attempt, [`ended`](Self::ended) learns from its end. No
/// clock is read and nothing is waited for: what is due by time is done by the next `send`.
#[derive(Debug)]
pub struct Pool {
    pub(super) common: Arc<Common>,
    pub(super) members: Box<[Arc<Member>]>,
}

impl Pool {
    /// A pool of this many backends, all healthy, that exists from `now` on.
    #[must_use]
    pub fn new(policy: impl Into<LiveHealthPolicy>, backends: usize, now: Instant) -> Self {
        Self::returning(policy.into(), backends, now, false)
    }

    /// As [`new`](Self::new); `by_trial` if an ejected backend returns by a trial only.
    pub(super) fn returning(
        live: LiveHealthPolicy,
        backends: usize,
        now: Instant,
        by_trial: bool,
    ) -> Self {
        let policy = live.load();
        let members: Vec<_> = (0..backends).map(|_| Arc::new(Member::new(0, 0))).collect();
        let first = nanos(TICK.min(policy.interval)).saturating_add(1);
        let ledger = Ledger {
            members: members.clone(),
            ticked_at: 1,
            swept_at: 1,
            events: Vec::new(),
        };
        Self {
            common: Arc::new(Common {
                by_trial,
                epoch: now,
                plain_until: AtomicU64::new(first),
                tick_at: AtomicU64::new(first),
                draws: AtomicU64::new(policy.randomness.bits()),
                usual: AtomicU64::new(0),
                held_until: AtomicU64::new(0),
                ledger: Mutex::new(ledger),
                listeners: Listeners::default(),
                policy: live,
            }),
            members: members.into(),
        }
    }

    /// The pool of a list that has changed: for each of its backends its place in this pool, whose
    /// state it keeps, or `None` for a new one. If more than the allowed share would be ejected
    /// then, those that were ejected first return.
    ///
    /// Attempts that were sent from this pool end in it.
    #[must_use]
    pub fn changed(&self, list: &[Option<usize>], now: Instant) -> Self {
        let (pool, events) = self.changed_to(list, now);
        pool.notify(&events);
        pool
    }

    /// Calls the listeners.
    pub(crate) fn notify(&self, events: &[HealthEvent]) {
        if !events.is_empty() {
            self.common.listeners.notify(events);
        }
    }

    /// As [`changed`](Self::changed), but notifies no listener: returns the events.
    pub(crate) fn changed_to(
        &self,
        list: &[Option<usize>],
        now: Instant,
    ) -> (Self, Vec<HealthEvent>) {
        let common = &self.common;
        let now = common.nanos(now);
        let member = |kept: &Option<usize>| {
            let kept = kept.and_then(|at| self.members.get(at)).map(Arc::clone);
            kept.unwrap_or_else(|| Arc::new(Member::new(common.usual.load(Relaxed), now)))
        };
        let members: Vec<_> = list.iter().map(member).collect();
        let ((), events) = common.in_ledger(|ledger| {
            // Those of the newest list, which may be another one than this pool's.
            ledger
                .members
                .iter()
                .for_each(|member| member.set_gone(true));
            members.iter().for_each(|member| member.set_gone(false));
            ledger.members.clone_from(&members);
            common.uneject_beyond_share(ledger, now);
        });
        common.plain_until.store(0, Relaxed);
        let pool = Self {
            common: Arc::clone(common),
            members: members.into(),
        };
        (pool, events)
    }

    /// Names the backend at this place, for [events](Self::on_event). Its first name stays.
    pub fn set_name(&self, at: usize, name: impl Into<Arc<str>>) {
        if let Some(member) = self.members.get(at) {
            member.set_name(name.into());
        }
    }

    /// Calls this function after each ejection and each return, of all pools of the changing list;
    /// earlier functions stay. It is called inline, by the attempt that causes the event, and must
    /// not block. Events of concurrent attempts may arrive in any order.
    pub fn on_event(&self, listener: impl Fn(&HealthEvent) + Send + Sync + 'static) {
        self.common.listeners.add(listener);
    }

    /// What is known of each backend, in the order of the list.
    #[must_use]
    pub fn status(&self, now: Instant) -> Vec<Status> {
        let common = &self.common;
        let at = common.nanos(now);
        let status = |member: &Arc<Member>| Status {
            in_flight: member.in_flight(),
            latency: match member.latency() {
                0 | 1 => None,
                known => Some(Duration::from_nanos(known)),
            },
            ejected_for: common
                .ejected_until(member)
                .map(|until| Duration::from_nanos(until.saturating_sub(at))),
        };
        self.members.iter().map(status).collect()
    }
}
