//! State shared by all attempts and layers of one call.

#[cfg(all(test, reattempt_loom))]
mod models;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::call::attempts::{AttemptKey, AttemptSlots, ConfigWaiter, SLOTS};
use crate::call::began::Began;
use crate::call::options::Options;
use crate::call::subject::CallSubject;
use crate::info::{AttemptRecord, Backend, MOST_RECORDS, RetryInfo, StopReason};
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::{AttemptKind, AttemptOutcome, Failure, RetryReason};

/// One state per call. Every attempt writes the atomics; the log is behind a lock that a call whose
/// first attempt succeeds never takes.
#[derive(Debug, Default)]
pub(crate) struct CallState {
    /// Written only while nothing else shares this state.
    pub(crate) options: Options,
    /// The call, if this state only holds other options for one of its attempts.
    of: Option<Arc<CallState>>,
    pub(crate) slots: AttemptSlots,
    /// Written by the recovery layer only, so a plain load and store is enough.
    progress: AtomicU64,
    /// [`LOGGED`] and [`COPIED`].
    flags: AtomicU8,
    /// When the call first had to wait, if [`TIMED`] says so.
    began: Began,
    /// Boxed on its first entry, so that a call that succeeds at once neither allocates nor drops
    /// one.
    log: Mutex<Option<Box<CallLog>>>,
}

/// The fields of the progress word: attempts sent, whether one of them ended the call successfully,
/// and whether a recovery layer acts on it. One word, so that one store resets a state.
const SENT_MASK: u64 = (1 << 32) - 1;
/// Why the call ended, in one byte.
const STOPPED_SHIFT: u32 = 32;
const STOPPED: u64 = 0xff << STOPPED_SHIFT;
/// A layer below the recovery layer enforces the policy's attempt timeout.
const ATTEMPT_LIMITED: u64 = 1 << 61;
/// The call wrote when it began.
const TIMED: u64 = 1 << 60;
const WON: u64 = 1 << 62;
const CLAIMED: u64 = 1 << 63;

const fn stopped_bits(stopped: StopReason) -> u64 {
    (stopped.to_byte() as u64) << STOPPED_SHIFT
}

/// The log is allocated.
const LOGGED: u8 = 1;
/// The request was copied after a layer began this call.
const COPIED: u8 = 1 << 1;

#[derive(Default)]
struct CallLog {
    info: RetryInfo,
    /// Only if the log is on.
    identity: Option<Box<Identity>>,
    /// The failure for which the throttle last paid for a retry.
    permitted: Option<Failure>,
    backends: Vec<(u32, Backend)>,
    waiters: Vec<(u32, ConfigWaiter)>,
}

/// How the log of the process calls this call.
struct Identity {
    /// Its number, from 1.
    id: u64,
    subject: CallSubject,
}

impl Identity {
    fn of(subject: CallSubject) -> Self {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let last = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self {
            id: last + 1,
            subject,
        }
    }
}

impl CallLog {
    /// Stores the attempt's waiter. Returns the waiter that is not kept: an earlier one of the same
    /// attempt, or one over the limit.
    fn leave_waiter(&mut self, attempt: u32, waiter: ConfigWaiter) -> Option<ConfigWaiter> {
        if let Some((_, other)) = self.waiters.iter_mut().find(|(n, _)| *n == attempt) {
            return Some(std::mem::replace(other, waiter));
        }
        if self.waiters.len() == SLOTS {
            return Some(waiter);
        }
        self.waiters.push((attempt, waiter));
        None
    }
}

impl std::fmt::Debug for CallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLog")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl CallState {
    /// The state of a call that has not begun. A call that the caller watches has another one,
    /// without options.
    pub(crate) fn with(options: Options) -> Self {
        let caller = options.caller.as_ref();
        let is_watched = caller.is_some_and(|own| own.watch.is_some());
        Self {
            of: is_watched.then(Arc::default),
            options,
            ..Self::default()
        }
    }

    /// Other options for an attempt of this call.
    pub(crate) fn beside(call: Arc<Self>, options: Options) -> Self {
        Self {
            of: Some(call),
            options,
            ..Self::default()
        }
    }

    /// From now on these are only the options of that call.
    pub(crate) fn stand_beside(&mut self, call: Arc<Self>) {
        self.of = Some(call);
    }

    /// The state of the call itself.
    #[inline(always)]
    pub(crate) fn of_call(&self) -> &Self {
        self.of.as_deref().unwrap_or(self)
    }

    /// The same, as its own handle.
    pub(crate) fn shared_by(state: &Arc<Self>) -> Arc<Self> {
        Arc::clone(state.of.as_ref().unwrap_or(state))
    }

    /// These are no longer the options of an attempt. Returns its call.
    pub(crate) fn leave_call(&mut self) -> Option<Arc<Self>> {
        self.of.take()
    }

    /// True if a later call may use this state: it holds nothing but a policy and a throttle, which
    /// that call replaces or attaches again.
    #[inline(always)]
    pub(crate) fn is_reusable(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
            && self.options.caller.is_none()
            && self.of.is_none()
    }

    fn write<T>(&self, write: impl FnOnce(&mut CallLog) -> T) -> T {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        self.flags.fetch_or(LOGGED, Ordering::Relaxed);
        write(log.get_or_insert_default())
    }

    fn read<T>(&self, read: impl FnOnce(&CallLog) -> T) -> Option<T> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.as_deref().map(read)
    }

    /// True once something of the call was logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LOGGED != 0
    }

    /// Resets what another call left. Each attempt writes its slot before it is read. Only attempt
    /// 0, which no recovery layer sends, uses its slot without writing it first.
    #[inline]
    pub(crate) fn reset(&self) {
        self.progress.store(0, Ordering::Relaxed);
        self.slots.begin(0);
    }

    #[inline]
    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// A recovery layer acts on the call. Only one claims it: a clone of a context that is not
    /// claimed has a state of its own.
    #[inline]
    pub(crate) fn claim(&self) {
        self.progress.fetch_or(CLAIMED, Ordering::Relaxed);
    }

    /// [`CallState::claim`] and [`CallState::sent`] for the first attempt in one step.
    #[inline(always)]
    pub(crate) fn claim_first(&self) {
        self.progress.store(CLAIMED | 1, Ordering::Relaxed);
        self.slots.begin(1);
    }

    /// A recovery layer leaves the call to another one: if none acts, what is sent now is the only
    /// attempt.
    #[cold]
    pub(crate) fn pass_first(&self) {
        if self.progress() & SENT_MASK == 0 {
            self.progress.fetch_or(1, Ordering::Relaxed);
            self.slots.begin(1);
        }
    }

    #[inline]
    pub(crate) fn is_claimed(&self) -> bool {
        self.progress() & CLAIMED != 0
    }

    #[inline]
    pub(crate) fn sent(&self, attempt: u32, transparent: bool) -> AttemptKey {
        let seat = self.slots.begin(attempt);
        let rest = self.progress() & !(SENT_MASK | STOPPED | WON);
        self.progress
            .store(rest | u64::from(attempt), Ordering::Relaxed);
        if transparent {
            self.write(|log| log.info.transparent = log.info.transparent.saturating_add(1));
        }
        seat
    }

    /// True once an attempt was sent.
    #[cfg(feature = "tokio")]
    pub(crate) fn sent_any(&self) -> bool {
        self.progress() & SENT_MASK > 0
    }

    /// True once a second attempt was sent.
    #[inline]
    pub(crate) fn sent_several(&self) -> bool {
        self.progress() & SENT_MASK > 1
    }

    /// An attempt failed or was dropped.
    pub(crate) fn settled(&self, seat: AttemptKey) {
        self.slots.over(seat);
    }

    /// An attempt succeeded or its response is committed: the call is over for the recovery layer,
    /// and no attempt is in flight.
    #[inline]
    pub(crate) fn won(&self, stopped: StopReason) {
        let rest = self.progress() & !STOPPED;
        self.progress
            .store(rest | WON | stopped_bits(stopped), Ordering::Relaxed);
        if self.is_logged() {
            self.drop_waiters();
        }
    }

    /// A layer above may call this at any time, so it is one atomic step.
    pub(crate) fn stop(&self, stopped: StopReason) {
        let _ = self
            .progress
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |progress| {
                Some(progress & !STOPPED | stopped_bits(stopped))
            });
    }

    /// The request is copied after a layer began this call: the copy is a call of its own, of which
    /// that layer sees nothing.
    pub(crate) fn copied(&self) {
        self.flags.fetch_or(COPIED, Ordering::Relaxed);
    }

    /// True once the request was copied after a layer began this call.
    pub(crate) fn is_copied(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & COPIED != 0
    }

    /// A layer below the recovery layer enforces the policy's attempt timeout.
    pub(crate) fn limit_attempts(&self) {
        self.progress.fetch_or(ATTEMPT_LIMITED, Ordering::Relaxed);
    }

    /// True once a layer enforces the attempt timeout.
    pub(crate) fn is_attempt_limited(&self) -> bool {
        self.progress() & ATTEMPT_LIMITED != 0
    }

    /// True if an attempt is in flight that may have left the client.
    pub(crate) fn in_flight(&self) -> bool {
        let mut progress = self.progress();
        loop {
            if progress & CLAIMED == 0 {
                return true;
            }
            if progress & WON != 0 {
                return false;
            }
            if self.slots.any_may_have_left((progress & SENT_MASK) as u32) {
                return true;
            }
            // The caller may be on another thread: a further attempt may have been sent before the
            // ones already checked ended. It was counted before they ended, and the slots are read
            // with acquire ordering.
            let before = std::mem::replace(&mut progress, self.progress());
            if before == progress {
                return false;
            }
        }
    }

    /// Whether another attempt than this one is in flight.
    #[cfg(feature = "tokio")]
    pub(crate) fn others_in_flight(&self, seat: AttemptKey) -> bool {
        let sent = (self.progress() & SENT_MASK) as u32;
        self.slots.others_may_have_left(seat, sent)
    }

    pub(crate) fn record(&self, record: AttemptRecord, reason: Option<RetryReason>) {
        self.write(|log| log.info.push(record, reason));
    }

    /// The throttle paid for a retry after this failure.
    pub(crate) fn permitted(&self, failure: &Failure) {
        self.write(|log| log.permitted = Some(*failure));
    }

    /// The failure for which the throttle last paid for a retry. A call that succeeds at once has
    /// no log to read.
    pub(crate) fn last_permitted(&self) -> Option<Failure> {
        if !self.is_logged() {
            return None;
        }
        self.read(|log| log.permitted)?
    }

    /// A planned hedge was refused.
    pub(crate) fn refused(&self, stopped: StopReason) {
        self.write(|log| log.info.count_refused(stopped));
    }

    /// Changes the newest record of an attempt after a deferred decision or a late gate.
    pub(crate) fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        self.write(|log| {
            if let Some(record) = log
                .info
                .records
                .iter_mut()
                .rev()
                .find(|r| r.number == attempt)
            {
                change(record);
            }
        });
    }

    /// A committed response ended in a failure. The success path left no record of it, unless an
    /// observer wanted one.
    pub(crate) fn concluded(
        &self,
        seat: AttemptKey,
        kind: AttemptKind,
        failure: &Failure,
        counts: bool,
    ) {
        self.write(|log| {
            if counts {
                log.info.count_reason(failure.reason);
            }
            let number = seat.attempt;
            let mut records = log.info.records.iter_mut().rev();
            if let Some(record) = records.find(|record| record.number == number) {
                record.failure = Some(*failure);
                return;
            }
            let mut record = AttemptRecord::new(number, kind, AttemptOutcome::Committed);
            record.failure = Some(*failure);
            record.stopped = Some(StopReason::Committed);
            let mut backends = log.backends.iter().rev();
            record.backend = backends.find(|(n, _)| *n == number).map(|(_, b)| b.clone());
            log.info.push(record, None);
        });
    }

    pub(crate) fn backend(&self, attempt: u32, backend: Backend) {
        self.write(|log| {
            if log.backends.len() == MOST_RECORDS {
                log.backends.remove(0);
            }
            log.backends.push((attempt, backend));
        });
    }

    pub(crate) fn backend_of(&self, attempt: u32) -> Option<Backend> {
        // A first attempt takes no lock.
        if !self.is_logged() {
            return None;
        }
        self.read(|log| {
            log.backends
                .iter()
                .rev()
                .find(|(n, _)| *n == attempt)
                .map(|(_, b)| b.clone())
        })?
    }

    /// The backends used by this call, least recently used first.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        // A first attempt takes no lock.
        if !self.is_logged() {
            return Vec::new();
        }
        let used = self.read(|log| {
            let mut used: Vec<Backend> = Vec::new();
            for (_, backend) in log.backends.iter().rev() {
                if !used.contains(backend) {
                    used.push(backend.clone());
                }
            }
            used.reverse();
            used
        });
        used.unwrap_or_default()
    }

    /// Stores a waiter until its attempt is settled. If the attempt or the call is over, the waiter
    /// is dropped at once: nothing would take it, and a `RetryInfoHandle` may keep the state alive
    /// for a long time.
    pub(crate) fn leave_waiter(&self, seat: AttemptKey, waiter: ConfigWaiter) {
        if !self.slots.config_coming(seat) {
            return;
        }
        // Dropping a waiter runs user code, so it happens outside the lock.
        let _unwanted = self.write(|log| log.leave_waiter(seat.attempt, waiter));
        // Checked after the waiter was stored: a call that ends meanwhile either finds the waiter
        // or is seen as ended here.
        if self.progress() & (WON | STOPPED) != 0 {
            self.drop_waiters();
        }
    }

    /// Called when the call is over.
    #[cold]
    pub(crate) fn drop_waiters(&self) {
        let _unwanted = self.write(|log| std::mem::take(&mut log.waiters));
    }

    pub(crate) fn take_waiter(&self, attempt: u32) -> Option<ConfigWaiter> {
        self.write(|log| {
            let at = log.waiters.iter().position(|(n, _)| *n == attempt)?;
            Some(log.waiters.swap_remove(at).1)
        })
    }

    /// The call has to wait: for its log, this is when it began.
    pub(crate) fn waits(&self, now: impl FnOnce() -> Instant) {
        if self.progress() & TIMED == 0 {
            self.began.note(now());
            self.progress.fetch_or(TIMED, Ordering::Relaxed);
        }
    }

    /// How long the call took up to `now`. A call that never had to wait took no time.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        if self.progress() & TIMED != 0 {
            self.began.took(now)
        } else {
            Duration::ZERO
        }
    }

    /// Keeps what the call is about, unless it is known.
    pub(crate) fn describe(&self, subject: impl FnOnce() -> CallSubject) {
        if self.id().is_none() {
            let identity = Box::new(Identity::of(subject()));
            self.write(|log| log.identity = Some(identity));
        }
    }

    pub(crate) fn subject(&self) -> Option<CallSubject> {
        self.read(|log| Some(log.identity.as_ref()?.subject.clone()))?
    }

    /// The call's number in the log of the process.
    pub(crate) fn id(&self) -> Option<u64> {
        self.read(|log| Some(log.identity.as_ref()?.id))?
    }

    /// Why the call ended, if it has.
    #[inline]
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        StopReason::from_byte((self.progress() >> STOPPED_SHIFT) as u8)
    }

    /// The failure that was recorded last.
    #[cfg(feature = "tokio")]
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        self.read(|log| {
            log.info
                .records
                .iter()
                .rev()
                .find_map(|record| record.failure)
        })?
    }

    pub(crate) fn info(&self) -> RetryInfo {
        let kept = self.is_logged().then(|| self.read(|log| log.info.clone()));
        let mut info = kept.flatten().unwrap_or_default();
        info.attempts = (self.progress() & SENT_MASK) as u32;
        info.stopped = self.stopped();
        info
    }
}
