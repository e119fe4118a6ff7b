//! The gauge of the throttle that is nearest to refusing retries.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::meter::Gauge;
use crate::{CallContext, RetryThrottle, clock};

/// After this many calls that left the level as it was, it is read seldom.
const AT_REST: u32 = 100;
/// One of this many calls reads a level that rests. It may be that of calls that other throttles
/// count, so that nothing says whether the emptiest one is full.
const SELDOM: u32 = 64;
/// No call reads the level: no throttle was watched, or none of those that were still counts.
const UNWATCHED: u32 = u32::MAX;
/// Of more throttles the emptiest ones are watched.
const MOST_THROTTLES: usize = 64;
/// A throttle that counted no failure and refused no hedge for this long is watched no more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The throttles that counted a failure or refused a hedge, and the gauge of their level.
pub(super) struct Throttles {
    level: Arc<dyn Gauge>,
    seen: Mutex<Vec<Watched>>,
    /// How many calls have left the level as it was, or [`UNWATCHED`].
    still: AtomicU32,
    /// One thread at a time sets the gauge, and no other waits for it.
    level_set: Mutex<Level>,
}

/// One of them, and when it last did.
struct Watched {
    throttle: Weak<dyn RetryThrottle>,
    used: Instant,
}

impl Watched {
    /// Whether it still counts: one that no call uses any more would hold the gauge down forever.
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < FORGOTTEN_AFTER
    }
}

/// In thousandths of a token.
struct Level {
    last: u64,
    highest: u64,
}

impl Throttles {
    pub(super) fn new(level: Arc<dyn Gauge>) -> Self {
        Self {
            level,
            seen: Mutex::default(),
            still: AtomicU32::new(UNWATCHED),
            level_set: Mutex::new(Level {
                last: u64::MAX,
                highest: 0,
            }),
        }
    }

    /// The throttle of this call may have counted a failure, or refused a hedge.
    #[cold]
    pub(super) fn used(&self, context: &CallContext) {
        let Some(throttle) = context.throttle() else {
            return;
        };
        let now = clock::now();
        self.watch(throttle, now);
        self.still.store(0, Ordering::Relaxed);
        self.update(now);
    }

    #[inline]
    pub(super) fn call_ended(&self) {
        if self.still.load(Ordering::Relaxed) != UNWATCHED {
            self.look();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watched throttles that still exist and were used lately. Their code does not run inside
    /// the lock.
    fn live(&self, now: Instant) -> Vec<Arc<dyn RetryThrottle>> {
        let seen = self.seen();
        let recent = seen.iter().filter(|known| known.is_recent(now));
        recent
            .filter_map(|known| known.throttle.upgrade())
            .collect()
    }

    fn watch(&self, throttle: &Arc<dyn RetryThrottle>, now: Instant) {
        let new = Watched {
            throttle: Arc::downgrade(throttle),
            used: now,
        };
        {
            let mut seen = self.seen();
            if let Some(known) = find(&mut seen, &new.throttle) {
                known.used = now;
                return;
            }
            seen.retain(|known| known.is_recent(now) && known.throttle.strong_count() > 0);
            if seen.len() < MOST_THROTTLES {
                return seen.push(new);
            }
        }
        let by_level = |throttle: &Arc<dyn RetryThrottle>| throttle.milli_headroom();
        let Some(fullest) = self.live(now).into_iter().max_by_key(by_level) else {
            return;
        };
        if fullest.milli_headroom() > throttle.milli_headroom() {
            let fullest = Arc::downgrade(&fullest);
            if let Some(place) = find(&mut self.seen(), &fullest) {
                *place = new;
            }
        }
    }

    /// A call ended, and a throttle is watched.
    #[cold]
    fn look(&self) {
        let still = self.still.fetch_add(1, Ordering::Relaxed);
        if still >= AT_REST + SELDOM {
            self.still.store(AT_REST, Ordering::Relaxed);
            self.update(clock::now());
        } else if still < AT_REST {
            self.update(clock::now());
        }
    }

    /// The level of the emptiest of them.
    fn lowest(&self, now: Instant) -> Option<u64> {
        let levels = self.live(now);
        let levels = levels
            .iter()
            .filter_map(|throttle| throttle.milli_headroom());
        levels.min()
    }

    /// No throttle counted, and calls read no level any more. One that was used meanwhile could not
    /// set the gauge: its level.
    fn unwatch(&self, now: Instant) -> Option<u64> {
        self.still.store(UNWATCHED, Ordering::Relaxed);
        // What is used after this sets `still` itself.
        let lowest = self.lowest(now)?;
        self.still.store(0, Ordering::Relaxed);
        Some(lowest)
    }

    /// Sets the gauge.
    fn update(&self, now: Instant) {
        let mut level = match self.level_set.try_lock() {
            Ok(level) => level,
            // A gauge or a throttle panicked once.
            Err(TryLockError::Poisoned(level)) => level.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let watched = self.lowest(now).or_else(|| self.unwatch(now));
        let lowest = match watched {
            Some(lowest) => lowest,
            // One that was dropped refuses nothing, and one that no call uses any more neither.
            None if level.highest > 0 => level.highest,
            None => return,
        };
        level.highest = level.highest.max(lowest);
        let before = std::mem::replace(&mut level.last, lowest);
        if before != lowest && watched.is_some() {
            self.still.store(0, Ordering::Relaxed);
        }
        // Also if it is as before: an exporter may forget what is not set again.
        self.level.set(lowest as f64 / 1000.0);
    }
}

/// The entry of this throttle.
fn find<'a>(
    seen: &'a mut [Watched],
    throttle: &Weak<dyn RetryThrottle>,
) -> Option<&'a mut Watched> {
    seen.iter_mut()
        .find(|known| known.throttle.ptr_eq(throttle))
}
