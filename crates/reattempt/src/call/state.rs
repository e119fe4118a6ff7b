//! State shared by all attempts and layers of one call: a slot for what is reported of each attempt
//! in flight, how far the call is, and the log.

mod amended;
#[cfg(feature = "tokio")]
mod at_end;
mod backends;
mod began;
mod by_layers;
mod committed;
mod identity;
mod in_flight;
#[cfg(all(test, reattempt_loom))]
mod models;
mod options;
mod own_answer;
mod reports;
mod reuse;
mod waiters;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use crate::attempt::{AttemptRecord, AttemptReport, Backend};
use crate::call::attempt_key::{AttemptKey, SLOTS};
use crate::info::RetryInfo;
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::{Failure, StopReason};
#[cfg(feature = "tokio")]
pub(crate) use at_end::AtEnd;
#[cfg(feature = "tokio")]
use at_end::{EndOf, Step};
use began::Began;
#[cfg(feature = "tokio")]
pub(crate) use committed::ResponseFailed;
use identity::Identity;
pub(crate) use options::{CallerOptions, Options};
pub(crate) use reports::Flag;
use reports::{VALUE_BITS, reported};

/// Resolves after a newer configuration was looked up: `true` if it moved the call's target, so
/// that the retry is sent at once; `false` leaves the delay to the back-off.
pub type ConfigWaiter = Pin<Box<dyn Future<Output = bool> + Send + 'static>>;

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

/// Something of the call was logged, other than a backend.
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

/// The log of a call: its records, and what its attempts left.
#[derive(Default)]
struct CallLog {
    info: RetryInfo,
    /// Only if the log is on.
    identity: Option<Box<Identity>>,
    /// The failure for which the throttle last paid for a retry.
    paid: Option<Failure>,
    backends: Vec<(u32, Backend)>,
    waiters: Vec<(u32, ConfigWaiter)>,
    #[cfg(feature = "tokio")]
    at_end: Vec<(EndOf, AtEnd)>,
    #[cfg(feature = "tokio")]
    steps: Vec<Step>,
    /// Learns if the committed response fails.
    #[cfg(feature = "tokio")]
    watcher: Option<ResponseFailed>,
}

impl CallState {
    /// The state of the call itself.
    #[inline]
    pub(crate) fn of_call(&self) -> &Self {
        self.of.as_deref().unwrap_or(self)
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// True once something of the call was logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.has(LOGGED | SEEN_BACKENDS)
    }

    #[inline]
    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// [`CallState::claim`] and [`CallState::sent`] for the first attempt in one step.
    #[inline]
    pub(crate) fn claim_first(&self) {
        self.progress.store(CLAIMED | 1, Ordering::Relaxed);
        self.slots.begin(1);
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

    /// True once the recovery layer has said that the call is over.
    pub(crate) fn is_over(&self) -> bool {
        self.progress() & OVER != 0
    }

    /// Why the call ended, if it has.
    #[inline]
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        StopReason::from_byte((self.progress() >> STOPPED_SHIFT) as u8)
    }

    fn in_log<T, F>(&self, act: F) -> T
    where
        F: FnOnce(&mut Option<Box<CallLog>>) -> T,
    {
        act(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The log, which something is written to now.
    fn begun<'a>(&self, log: &'a mut Option<Box<CallLog>>) -> &'a mut CallLog {
        if !self.has(LOGGED) {
            self.flags.fetch_or(LOGGED, Ordering::Relaxed);
        }
        log.get_or_insert_default()
    }

    fn write<T, F: FnOnce(&mut CallLog) -> T>(&self, write: F) -> T {
        self.in_log(|log| write(self.begun(log)))
    }

    fn read<T, F: FnOnce(&CallLog) -> T>(&self, read: F) -> Option<T> {
        self.in_log(|log| log.as_deref().map(read))
    }

    pub(crate) fn record(&self, record: &AttemptRecord) {
        self.remember_lost(record);
        let _unwanted = self.write(|log| {
            if record.paid {
                log.paid = record.failure;
            }
            log.info.push(record);
            // The lock orders this before or after a waiter that is stored at the same time.
            let unwanted = self.has(LEFT_WAITER) && self.is_over();
            unwanted.then(|| std::mem::take(&mut log.waiters))
        });
    }

    /// The failure for which the throttle last paid for a retry. A call that succeeds at once has
    /// no log to read.
    pub(crate) fn last_paid(&self) -> Option<Failure> {
        if !self.has(LOGGED) {
            return None;
        }
        self.read(|log| log.paid)?
    }

    pub(crate) fn info(&self) -> RetryInfo {
        let kept = self.has(LOGGED).then(|| self.read(|log| log.info.clone()));
        let mut info = kept.flatten().unwrap_or_default();
        info.attempts = (self.progress() & SENT_MASK) as u32;
        info.stopped = self.stopped();
        info
    }
}

impl AttemptKey {
    /// Whether the word is this attempt's.
    const fn owns(self, word: u64) -> bool {
        word >> TAG_SHIFT == tag(self.attempt) >> TAG_SHIFT
    }
}

/// One word per attempt: 9 bits of attempt number, 14 of flags, 41 of pushback in microseconds.
///
/// A report names its attempt; if a later attempt owns the slot, the report is ignored. Numbers
/// that differ by 512 look the same: a report would have to be later than 512 further attempts.
#[derive(Debug, Default)]
pub(crate) struct AttemptSlots([AtomicU64; SLOTS]);

const TAG_SHIFT: u32 = VALUE_BITS + 14;

const fn tag(attempt: u32) -> u64 {
    (attempt as u64) << TAG_SHIFT
}

impl AttemptSlots {
    #[inline]
    fn slot(&self, slot: u8) -> &AtomicU64 {
        &self.0[slot as usize % SLOTS]
    }

    /// Assigns an empty slot to this attempt: its first choice or, if an earlier attempt is still
    /// in flight there, the slot of an attempt that is over.
    #[inline]
    pub(crate) fn begin(&self, attempt: u32) -> AttemptKey {
        let mut key = AttemptKey {
            attempt,
            slot: (attempt % SLOTS as u32) as u8,
        };
        // Up to this number every attempt is the first of this call in its slot, whose content is
        // left over from an earlier call.
        if attempt > SLOTS as u32 && !self.is_over(key.slot) {
            key.slot = self.free(key.slot);
        }
        self.slot(key.slot).store(tag(attempt), Ordering::Release);
        key
    }

    fn is_over(&self, slot: u8) -> bool {
        self.slot(slot).load(Ordering::Acquire) & Flag::OVER.0 != 0
    }

    /// The slot of an attempt that is over. One always exists: fewer than [`SLOTS`] attempts are in
    /// flight when a further one is sent.
    #[cold]
    fn free(&self, first: u8) -> u8 {
        (0..SLOTS as u8)
            .find(|slot| self.is_over(*slot))
            .unwrap_or(first)
    }

    /// Changes the word of this attempt, and returns it as it was; `None` if the slot belongs to a
    /// later attempt.
    fn update(&self, key: AttemptKey, change: impl Fn(u64) -> u64) -> Option<u64> {
        self.slot(key.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                key.owns(word).then(|| change(word))
            })
            .ok()
    }

    /// The attempt takes no more reports: what was reported of it.
    pub(crate) fn end(&self, key: AttemptKey) -> AttemptReport {
        let word = self.update(key, |word| word | Flag::OVER.0);
        word.map_or_else(AttemptReport::default, report)
    }
}

/// Nothing was reported, as of most attempts.
fn is_silent(word: u64) -> bool {
    word & ((1 << TAG_SHIFT) - 1) & !Flag::OVER.0 == 0
}

/// What a word says of its attempt.
fn report(word: u64) -> AttemptReport {
    if is_silent(word) {
        return AttemptReport::default();
    }
    reported(word)
}
