//! State shared by all attempts and layers of one call.

#[cfg(feature = "tokio")]
mod at_end;
mod backends;
mod began;
mod committed;
mod identity;
mod in_flight;
mod log;
#[cfg(all(test, reattempt_loom))]
mod models;
mod options;
mod waiters;

use std::sync::Arc;

use crate::call::attempts::{AttemptKey, AttemptSlots, Flag};
use crate::call::marks::Marks;
use crate::policy::throttle::count_success;
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::{RetryThrottle, StopReason};
#[cfg(feature = "tokio")]
pub(crate) use at_end::AtEnd;
use began::Began;
#[cfg(feature = "tokio")]
pub(crate) use committed::ResponseFailed;
use log::CallLog;
pub(crate) use options::{CallerOptions, Options};

/// One state per call. Every attempt writes the atomics; the log is behind a lock that a call whose
/// first attempt succeeds does not take, but for the end of a response that is followed.
#[derive(Debug, Default)]
pub(crate) struct CallState {
    /// Written only while nothing else shares this state; but for the throttle, which is set once.
    pub(crate) options: Options,
    /// The call, if this state only holds other options for one of its attempts.
    of: Option<Arc<CallState>>,
    pub(crate) slots: AttemptSlots,
    /// Written by the recovery layer, which begins attempts and ends the call by a plain load and
    /// store; a layer above may only stop the call.
    progress: AtomicU64,
    /// [`LOGGED`], [`COPIED`], [`SEEN_BACKENDS`], [`LEFT_WAITER`], [`LOST`], [`LEARNS`] and
    /// [`OWN_ANSWER`].
    flags: AtomicU8,
    /// When the call first had to wait, if [`TIMED`] says so.
    began: Began,
    /// Boxed on its first entry, so that a call that succeeds at once neither allocates nor drops
    /// one.
    log: Mutex<Option<Box<CallLog>>>,
}

/// The fields of the progress word: attempts sent, whether and why the call is over, and whether a
/// recovery layer acts on it. One word, so that one store resets a state.
const SENT_MASK: u64 = (1 << 32) - 1;
/// Why the call ended, in one byte.
const STOPPED_SHIFT: u32 = 32;
const STOPPED: u64 = 0xff << STOPPED_SHIFT;
/// A layer below the recovery layer enforces the policy's attempt timeout.
const ATTEMPT_TIMEOUT: u64 = 1 << 61;
/// The call wrote when it began.
const TIMED: u64 = 1 << 60;
/// An attempt succeeded, or its response is committed: what a layer above does later is no part of
/// the call.
const WON: u64 = 1 << 59;
/// The recovery layer has said that the call is over.
const OVER: u64 = 1 << 62;
const CLAIMED: u64 = 1 << 63;

const fn stopped_bits(stopped: StopReason) -> u64 {
    (stopped.to_byte() as u64) << STOPPED_SHIFT
}

/// Something of the call was logged.
const LOGGED: u8 = 1;
/// The request was copied after a layer began this call.
const COPIED: u8 = 1 << 1;
/// A backend of an attempt was logged.
const SEEN_BACKENDS: u8 = 1 << 2;
/// An attempt left a waiter, which was perhaps taken since.
const LEFT_WAITER: u8 = 1 << 3;
/// An attempt was lost in flight.
const LOST: u8 = 1 << 5;
/// Something waits, or waited, for the end of a response.
#[cfg(feature = "tokio")]
const LEARNS: u8 = 1 << 4;
/// A layer, and not the server, made the response of an attempt.
const OWN_ANSWER: u8 = 1 << 6;

impl CallState {
    /// The state of the call itself.
    #[inline]
    pub(crate) fn of_call(&self) -> &Self {
        self.of.as_deref().unwrap_or(self)
    }

    /// True if a later call may use this state: it holds nothing but a policy and a throttle, which
    /// that call replaces or attaches again, and perhaps an empty log.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
            && self.options.caller.is_none()
            && self.of.is_none()
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// True once something of the call was logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.has(LOGGED)
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
    #[inline]
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
        let key = self.slots.begin(attempt);
        let rest = self.progress() & !(SENT_MASK | STOPPED | OVER | WON);
        self.progress
            .store(rest | u64::from(attempt), Ordering::Relaxed);
        if transparent {
            self.write(|log| log.info.transparent = log.info.transparent.saturating_add(1));
        }
        key
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

    /// An attempt succeeded or its response is committed: the call is over for the recovery layer,
    /// and no attempt is in flight.
    #[inline]
    pub(crate) fn won(&self, stopped: StopReason) {
        self.won_plainly(stopped);
        if self.has(LEFT_WAITER) {
            self.drop_waiters();
        }
    }

    /// No attempt left a waiter, and no layer answered one.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.has(LEFT_WAITER | OWN_ANSWER)
    }

    /// [`CallState::won`] of a plain call.
    #[inline]
    pub(crate) fn won_plainly(&self, stopped: StopReason) {
        let rest = self.progress() & !STOPPED;
        self.progress
            .store(rest | OVER | WON | stopped_bits(stopped), Ordering::Relaxed);
    }

    /// The first attempt of a call that is not plain succeeded: the throttle counts it if the
    /// server answered it. By values: with the address of the context taken, a plain call would
    /// keep it in memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn succeeded(&self, attempt: Marks, throttle: Option<&dyn RetryThrottle>) {
        if let Some(throttle) = throttle.filter(|_| !self.is_own_answer(attempt.key())) {
            count_success(throttle, 1, None);
        }
        self.won(StopReason::Success);
    }

    /// A layer ended this attempt with an error: the reported stage counts.
    pub(crate) fn own_failure(&self, key: AttemptKey) {
        self.slots.set(key, Flag::OWN_ANSWER);
    }

    /// A layer made the response of this attempt, which may be a success.
    pub(crate) fn own_answer(&self, key: AttemptKey) {
        self.own_failure(key);
        self.flags.fetch_or(OWN_ANSWER, Ordering::Relaxed);
    }

    /// The attempt is sent: what a layer made of an earlier step of it is no longer its outcome.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn forget_own_answer(&self, key: AttemptKey) {
        if self.has(OWN_ANSWER) {
            self.slots.put(key, Flag::OWN_ANSWER, false);
        }
    }

    /// True if the outcome of this attempt, which is in flight, is a layer's own.
    #[inline]
    pub(crate) fn is_own_answer(&self, key: AttemptKey) -> bool {
        self.has(OWN_ANSWER) && self.slots.is_own_answer(key)
    }

    /// True if the response of the call is a layer's own.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_answered_by_layer(&self) -> bool {
        let sent = (self.progress() & SENT_MASK) as u32;
        self.has(OWN_ANSWER) && self.slots.any_own_answer(sent)
    }

    /// The call ended without a success. False if its end is recorded: then a panic of user code
    /// drops the call after it.
    pub(crate) fn end(&self, stopped: StopReason) -> bool {
        let end = |progress| {
            (progress & OVER == 0).then_some(progress & !STOPPED | OVER | stopped_bits(stopped))
        };
        let ended = self
            .progress
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, end);
        ended.is_ok()
    }

    /// True once an attempt succeeded by what the server answered, or its response is committed.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_won(&self) -> bool {
        self.progress() & WON != 0 && !self.is_answered_by_layer()
    }

    /// True once the recovery layer has said that the call is over.
    pub(crate) fn is_over(&self) -> bool {
        self.progress() & OVER != 0
    }

    /// A layer above may call this at any time, so it is one atomic step.
    pub(crate) fn stop(&self, stopped: StopReason) {
        if self.stopped() == Some(stopped) {
            return;
        }
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
        self.has(COPIED)
    }

    /// A layer below the recovery layer enforces the policy's attempt timeout.
    pub(crate) fn enforce_attempt_timeout(&self) {
        self.progress.fetch_or(ATTEMPT_TIMEOUT, Ordering::Relaxed);
    }

    /// True once a layer enforces the attempt timeout.
    pub(crate) fn has_attempt_timeout(&self) -> bool {
        self.progress() & ATTEMPT_TIMEOUT != 0
    }

    /// Why the call ended, if it has.
    #[inline]
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        StopReason::from_byte((self.progress() >> STOPPED_SHIFT) as u8)
    }
}
