//! What inner layers and transports found in one attempt, on its way up.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{ServerPushback, Stage};

/// Where an attempt went: an address or a name, as the transport spells it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(Arc<str>);

impl Backend {
    /// A backend of this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Resolves when a newer configuration was looked for: `true` if it moved what the call
/// is about, so that it is sent at once; `false` leaves it to the back-off.
pub type ConfigWaiter = Pin<Box<dyn Future<Output = bool> + Send + 'static>>;

/// What was found in one attempt, as the recovery layer reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// The server's word on another attempt.
    pub pushback: Option<ServerPushback>,
    /// How far the attempt came, if a layer knows better than the error tells.
    pub stage: Option<Stage>,
    /// Some layer forbids another attempt (nested recovery, a hop that gave up).
    pub forbidden: bool,
    /// A newer configuration was asked for; a waiter may have been left.
    pub config_coming: bool,
}

/// The most attempts of one call that can be out at once and still report.
pub(crate) const SLOTS: usize = 16;

/// One word an attempt: 12 bits of its number, 8 of flags, 44 of pushback in microseconds.
///
/// A report names its attempt; if the slot has gone to a later one since, it is ignored.
#[derive(Debug, Default)]
pub(crate) struct Slots([AtomicU64; SLOTS]);

const VALUE_BITS: u32 = 44;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const FLAG_STAGE: u64 = 0b11 << VALUE_BITS;
const FLAG_FORBID: u64 = 1 << (VALUE_BITS + 2);
const FLAG_CONFIG: u64 = 1 << (VALUE_BITS + 3);
const FLAG_STOP: u64 = 1 << (VALUE_BITS + 4);
const FLAG_AFTER: u64 = 1 << (VALUE_BITS + 5);
const FLAG_COMMITTED: u64 = 1 << (VALUE_BITS + 6);
const FLAG_OVER: u64 = 1 << (VALUE_BITS + 7);
const TAG_SHIFT: u32 = VALUE_BITS + 8;

const fn tag(attempt: u32) -> u64 {
    (attempt as u64) << TAG_SHIFT
}

impl Slots {
    #[inline]
    fn slot(&self, attempt: u32) -> &AtomicU64 {
        &self.0[attempt as usize % SLOTS]
    }

    /// Hands the slot to this attempt, empty.
    #[inline]
    pub(crate) fn begin(&self, attempt: u32) {
        self.slot(attempt).store(tag(attempt), Ordering::Release);
    }

    /// Changes this attempt's word; false when the slot belongs to a later one.
    fn change(&self, attempt: u32, change: impl Fn(u64) -> u64) -> bool {
        self.slot(attempt)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word >> TAG_SHIFT == tag(attempt) >> TAG_SHIFT).then(|| change(word))
            })
            .is_ok()
    }

    pub(crate) fn pushback(&self, attempt: u32, pushback: ServerPushback) {
        self.change(attempt, |word| {
            let word = word & !(FLAG_STOP | FLAG_AFTER | VALUE_MASK);
            match pushback {
                ServerPushback::Stop => word | FLAG_STOP,
                ServerPushback::After(delay) => {
                    let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
                    word | FLAG_AFTER | micros.min(VALUE_MASK)
                }
            }
        });
    }

    pub(crate) fn stage(&self, attempt: u32, stage: Stage) {
        let bits = (stage as u64 + 1) << VALUE_BITS;
        self.change(attempt, |word| (word & !FLAG_STAGE) | bits);
    }

    pub(crate) fn forbid(&self, attempt: u32) {
        self.change(attempt, |word| word | FLAG_FORBID);
    }

    pub(crate) fn config_coming(&self, attempt: u32) -> bool {
        self.change(attempt, |word| word | FLAG_CONFIG)
    }

    /// This attempt is out no more.
    pub(crate) fn over(&self, attempt: u32) {
        self.change(attempt, |word| word | FLAG_OVER);
    }

    /// True while this attempt is out and may have left the client.
    pub(crate) fn may_have_left(&self, attempt: u32) -> bool {
        let word = self.slot(attempt).load(Ordering::Acquire);
        let mine = word >> TAG_SHIFT == tag(attempt) >> TAG_SHIFT;
        let dispatch = (Stage::Dispatch as u64 + 1) << VALUE_BITS;
        mine && word & FLAG_OVER == 0 && word & FLAG_STAGE != dispatch
    }

    pub(crate) fn commit(&self, attempt: u32) {
        self.change(attempt, |word| word | FLAG_COMMITTED);
    }

    /// True exactly once for an attempt that was committed: its final status may now be counted.
    pub(crate) fn conclude(&self, attempt: u32) -> bool {
        self.slot(attempt)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let mine = word >> TAG_SHIFT == tag(attempt) >> TAG_SHIFT;
                (mine && word & FLAG_COMMITTED != 0).then_some(word & !FLAG_COMMITTED)
            })
            .is_ok()
    }

    pub(crate) fn read(&self, attempt: u32) -> Findings {
        let word = self.slot(attempt).load(Ordering::Acquire);
        if word >> TAG_SHIFT != tag(attempt) >> TAG_SHIFT {
            return Findings::default();
        }
        Findings {
            pushback: if word & FLAG_STOP != 0 {
                Some(ServerPushback::Stop)
            } else if word & FLAG_AFTER != 0 {
                Some(ServerPushback::After(Duration::from_micros(
                    word & VALUE_MASK,
                )))
            } else {
                None
            },
            stage: match (word & FLAG_STAGE) >> VALUE_BITS {
                1 => Some(Stage::Dispatch),
                2 => Some(Stage::InFlight),
                3 => Some(Stage::Response),
                _ => None,
            },
            forbidden: word & FLAG_FORBID != 0,
            config_coming: word & FLAG_CONFIG != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_is_read_back() {
        let slots = Slots::default();
        slots.begin(3);
        let after = ServerPushback::After(Duration::from_millis(250));
        slots.pushback(3, after);
        slots.stage(3, Stage::InFlight);
        assert!(slots.config_coming(3));
        let found = slots.read(3);
        assert_eq!(found.pushback, Some(after));
        assert_eq!(found.stage, Some(Stage::InFlight));
        assert!(found.config_coming && !found.forbidden);
        slots.pushback(3, ServerPushback::Stop);
        assert_eq!(slots.read(3).pushback, Some(ServerPushback::Stop));
    }

    #[test]
    fn a_late_writer_of_a_dead_attempt_is_ignored() {
        let slots = Slots::default();
        slots.begin(1);
        slots.begin(1 + SLOTS as u32);
        slots.pushback(1, ServerPushback::Stop);
        slots.forbid(1);
        assert_eq!(slots.read(1 + SLOTS as u32), Findings::default());
        assert_eq!(slots.read(1), Findings::default());
    }

    #[test]
    fn attempts_that_are_out_together_do_not_mix() {
        let slots = Slots::default();
        (1..=SLOTS as u32).for_each(|n| slots.begin(n));
        slots.forbid(5);
        assert!(slots.read(5).forbidden);
        assert!(
            (1..=SLOTS as u32)
                .filter(|n| slots.read(*n).forbidden)
                .eq([5])
        );
    }

    #[test]
    fn a_huge_pushback_saturates() {
        let slots = Slots::default();
        slots.begin(1);
        slots.pushback(1, ServerPushback::After(Duration::MAX));
        assert_eq!(
            slots.read(1).pushback,
            Some(ServerPushback::After(Duration::from_micros(VALUE_MASK)))
        );
    }

    #[test]
    fn a_committed_attempt_is_concluded_once() {
        let slots = Slots::default();
        slots.begin(1);
        assert!(!slots.conclude(1), "not committed yet");
        slots.commit(1);
        assert!(slots.conclude(1));
        assert!(!slots.conclude(1));
    }
}
