//! The progress of one call: its method, and the timing of its attempts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reattempt::{AttemptKind, CallContext};
use tokio::time::Instant;

use super::methods::Method;
use super::{GrpcStats, Instrument};
use crate::Code;

/// Created by the call layer and carried in the call's context, where attempts and observer find
/// it.
#[derive(Debug)]
pub(super) struct Progress {
    stats: GrpcStats,
    pub(super) method: Arc<Method>,
    began: Instant,
    attempts: Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// True if the recovery layer has this observer.
    observed: bool,
    retries: u32,
    hedges: u32,
    transparent: u32,
    /// A failed attempt was settled, and the call waits for the next attempt or for its deadline.
    waits: bool,
    active: u32,
    seen: bool,
    idle_since: Option<Instant>,
    idle: Duration,
}

impl Attempts {
    fn idle_until(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            let idle = now.saturating_duration_since(since);
            self.idle = self.idle.saturating_add(idle);
        }
    }
}

impl Progress {
    /// A call of this path begins.
    pub(super) fn begin(stats: &GrpcStats, path: &str) -> Arc<Self> {
        Arc::new(Self {
            stats: stats.clone(),
            method: stats.0.methods.of(path),
            began: Instant::now(),
            attempts: Mutex::default(),
        })
    }

    /// The progress of this context's call, if these statistics follow it.
    pub(super) fn of<'a>(stats: &GrpcStats, context: &'a CallContext) -> Option<&'a Arc<Self>> {
        let progress = context.data::<Arc<Self>>()?;
        Arc::ptr_eq(&progress.stats.0, &stats.0).then_some(progress)
    }

    fn attempts<T>(&self, change: impl FnOnce(&mut Attempts) -> T) -> T {
        change(&mut self.attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The recovery layer sends an attempt. Returns the ordinal of a retry attempt within its call.
    pub(super) fn sent(&self, kind: AttemptKind) -> Option<u32> {
        self.attempts(|attempts| {
            attempts.observed = true;
            match kind {
                AttemptKind::Retry => attempts.retries += 1,
                AttemptKind::Hedge => attempts.hedges += 1,
                AttemptKind::Transparent => {
                    attempts.transparent += 1;
                    return None;
                }
                _ => return None,
            }
            Some(attempts.retries + attempts.hedges)
        })
    }

    /// The recovery layer settled an attempt.
    pub(super) fn settled(&self, waits: bool) {
        self.attempts(|attempts| attempts.waits = waits);
    }

    /// An attempt begins. Returns true if the recovery layer has this observer.
    pub(super) fn attempt_began(&self, now: Instant) -> bool {
        self.attempts(|attempts| {
            attempts.idle_until(now);
            attempts.seen = true;
            attempts.active += 1;
            attempts.observed
        })
    }

    /// An attempt ends.
    pub(super) fn attempt_ended(&self, now: Instant) {
        self.attempts(|attempts| {
            attempts.active = attempts.active.saturating_sub(1);
            if attempts.active == 0 {
                attempts.idle_since = Some(now);
            }
        });
    }

    /// The call ends with this status.
    pub(super) fn ended(&self, code: Code) {
        let now = Instant::now();
        let stats = &self.stats.0;
        let took = now.saturating_duration_since(self.began);
        let duration = Instrument::CallDuration;
        stats.record(duration, took.as_secs_f64(), &self.method, Some(code));
        if !stats.retry_metrics {
            return;
        }
        let (counts, delay) = self.attempts(|attempts| {
            // No waiting follows the last attempt: the remaining time is the caller's own.
            if attempts.waits {
                attempts.idle_until(now);
            }
            let counts = [
                (Instrument::CallRetries, attempts.retries),
                (Instrument::CallTransparentRetries, attempts.transparent),
                (Instrument::CallHedges, attempts.hedges),
            ];
            (counts, attempts.seen.then_some(attempts.idle))
        });
        for (instrument, count) in counts {
            if count > 0 {
                stats.record(instrument, count.into(), &self.method, None);
            }
        }
        if let Some(delay) = delay {
            let retry_delay = Instrument::CallRetryDelay;
            stats.record(retry_delay, delay.as_secs_f64(), &self.method, None);
        }
    }
}
