//! What is reported of an attempt: how its word holds it, and who changes it.

#[cfg(all(test, reattempt_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{AttemptSlots, report};
use crate::call::attempt_key::{AttemptKey, SLOTS};
use crate::sync::Ordering;
use crate::{AttemptReport, ServerPushback, Stage};

/// A fact of an attempt that is one bit of its word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub(super) u64);

impl Flag {
    const fn of(bit: u32) -> Self {
        Self(1 << (VALUE_BITS + bit))
    }

    pub(crate) const FORBIDDEN: Self = Self::of(2);
    const CONFIG_COMING: Self = Self::of(3);
    const STOP: Self = Self::of(4);
    const AFTER: Self = Self::of(5);
    pub(super) const COMMITTED: Self = Self::of(6);
    /// It takes no more reports.
    pub(crate) const OVER: Self = Self::of(7);
    pub(crate) const OWN_ANSWER: Self = Self::of(8);
    pub(crate) const UNTRIED_BACKEND: Self = Self::of(9);
    pub(crate) const IN_DOUBT: Self = Self::of(10);
    pub(crate) const CIRCUIT_OPEN: Self = Self::of(11);
}

/// Two bits: whether a layer follows the attempt's response.
const FOLLOW: u64 = 0b11 << (VALUE_BITS + 12);
/// One does.
const FOLLOWED: u64 = 0b01 << (VALUE_BITS + 12);
/// One did, and reported a good end while the response was not committed.
const ENDED: u64 = 0b10 << (VALUE_BITS + 12);
/// Several do, or one follows the responses of several steps: whose end is reported is not known.
const SEVERAL: u64 = FOLLOW;

/// The microseconds of [`ServerPushback::LONGEST`].
pub(super) const VALUE_MASK: u64 = ServerPushback::LONGEST.as_micros() as u64;
pub(super) const VALUE_BITS: u32 = VALUE_MASK.trailing_ones();
pub(super) const STAGE: u64 = 0b11 << VALUE_BITS;
/// Both flags together say that the pushback was unreadable if the value is 0, and else that it was
/// too long.
const PUSHBACK: u64 = Flag::STOP.0 | Flag::AFTER.0;

impl AttemptSlots {
    /// The word of this attempt; `None` if the slot belongs to a later one.
    fn word(&self, key: AttemptKey) -> Option<u64> {
        let word = self.slot(key.slot).load(Ordering::Acquire);
        key.owns(word).then_some(word)
    }

    /// Changes the word of this attempt; false if the slot belongs to a later attempt.
    fn change(&self, key: AttemptKey, change: impl Fn(u64) -> u64) -> bool {
        self.update(key, change).is_some()
    }

    pub(crate) fn pushback(&self, key: AttemptKey, pushback: ServerPushback) {
        self.change(key, |word| {
            let word = word & !(PUSHBACK | VALUE_MASK);
            match pushback {
                ServerPushback::Stop => word | Flag::STOP.0,
                ServerPushback::After(delay) => word | Flag::AFTER.0 | micros(delay),
                ServerPushback::TooLong { millis } => {
                    word | PUSHBACK | micros(Duration::from_millis(millis)).max(1)
                }
            }
        });
    }

    /// Writes nothing if there is none.
    #[cfg(feature = "tokio")]
    pub(crate) fn forget_pushback(&self, key: AttemptKey) {
        let report = self.read(key);
        if report.pushback.is_some() || report.pushback_unreadable {
            self.change(key, |word| word & !PUSHBACK);
        }
    }

    pub(crate) fn pushback_unreadable(&self, key: AttemptKey) {
        self.change(key, |word| (word & !VALUE_MASK) | PUSHBACK);
    }

    pub(crate) fn stage(&self, key: AttemptKey, stage: Stage) {
        let bits = (stage as u64 + 1) << VALUE_BITS;
        self.change(key, |word| (word & !STAGE) | bits);
    }

    /// Sets or clears a flag.
    pub(crate) fn put(&self, key: AttemptKey, flag: Flag, on: bool) {
        let bit = if on { flag.0 } else { 0 };
        self.change(key, |word| (word & !flag.0) | bit);
    }

    /// An earlier step of the attempt was not sent, and this one is: what was reported of that one
    /// no longer holds.
    pub(crate) fn sent_again(&self, key: AttemptKey) {
        let refusal = Flag::CIRCUIT_OPEN.0 | Flag::OWN_ANSWER.0 | STAGE;
        self.change(key, |word| word & !refusal);
    }

    pub(crate) fn set(&self, key: AttemptKey, flag: Flag) {
        self.change(key, |word| word | flag.0);
    }

    /// False if the slot belongs to a later attempt or this attempt is over.
    pub(crate) fn config_coming(&self, key: AttemptKey) -> bool {
        self.change(key, |word| word | Flag::CONFIG_COMING.0) && !self.is_over(key.slot)
    }

    /// True if one of the first `sent` attempts is in flight and may have left the client.
    pub(crate) fn any_may_have_left(&self, sent: u32) -> bool {
        let dispatch = (Stage::Dispatch as u64 + 1) << VALUE_BITS;
        self.assigned(sent).any(|slot| {
            let word = self.slot(slot).load(Ordering::Acquire);
            word & Flag::OVER.0 == 0 && word & STAGE != dispatch
        })
    }

    /// True if one of the first `sent` attempts has a committed response that is followed and has
    /// not ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_end_awaited(&self, sent: u32) -> bool {
        self.assigned(sent).any(|slot| {
            let word = self.slot(slot).load(Ordering::Acquire);
            word & Flag::COMMITTED.0 != 0 && word & FOLLOW != 0
        })
    }

    /// The slots of the first `sent` attempts. The others are not assigned yet and hold data of an
    /// earlier call.
    fn assigned(&self, sent: u32) -> impl Iterator<Item = u8> {
        (0..SLOTS as u8)
            .filter(move |slot| sent >= SLOTS as u32 || (1..=sent).contains(&u32::from(*slot)))
    }

    /// The end of the attempt's response will be reported.
    pub(crate) fn follow(&self, key: AttemptKey) {
        self.change(key, |word| {
            let follow = match word & FOLLOW {
                FOLLOWED | SEVERAL => SEVERAL,
                // The one that did has reported.
                _ => FOLLOWED,
            };
            word & !FOLLOW | follow
        });
    }

    /// A layer reports the end of the attempt's response, or has done so.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_followed(&self, key: AttemptKey) -> bool {
        self.word(key).is_some_and(|word| word & FOLLOW != 0)
    }

    /// The response is the call's. False if it has been read to a good end by now, so that no end
    /// follows.
    pub(crate) fn commit(&self, key: AttemptKey) -> bool {
        let has_ended = |word: u64| word & FOLLOW == ENDED;
        let commit = |word| {
            if has_ended(word) {
                word
            } else {
                word | Flag::COMMITTED.0
            }
        };
        !self.update(key, commit).is_some_and(has_ended)
    }

    /// The response ended. True exactly once for a committed attempt: its final status may now be
    /// counted.
    pub(crate) fn conclude(&self, key: AttemptKey, is_good: bool) -> bool {
        let is_committed = |word: u64| word & Flag::COMMITTED.0 != 0;
        let conclude = |word| {
            if is_committed(word) {
                word & !Flag::COMMITTED.0
            } else if is_good && word & FOLLOW == FOLLOWED {
                word & !FOLLOW | ENDED
            } else {
                word
            }
        };
        self.update(key, conclude).is_some_and(is_committed)
    }

    /// True if the outcome of this attempt is a layer's own.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_own_answer(&self, key: AttemptKey) -> bool {
        self.read(key).own_answer
    }

    /// True if one of the first `sent` attempts has not failed, and its outcome is a layer's own.
    #[cfg(feature = "tokio")]
    pub(crate) fn any_own_answer(&self, sent: u32) -> bool {
        self.assigned(sent).any(|slot| {
            let word = self.slot(slot).load(Ordering::Acquire);
            word & Flag::OVER.0 == 0 && word & Flag::OWN_ANSWER.0 != 0
        })
    }

    pub(crate) fn read(&self, key: AttemptKey) -> AttemptReport {
        self.word(key).map_or_else(AttemptReport::default, report)
    }
}

/// The value for a delay.
fn micros(delay: Duration) -> u64 {
    let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
    micros.min(VALUE_MASK)
}

/// What a word says of its attempt, of which something was reported.
pub(super) fn reported(word: u64) -> AttemptReport {
    let has = |flag: Flag| word & flag.0 != 0;
    let asked = Duration::from_micros(word & VALUE_MASK);
    let unreadable = word & PUSHBACK == PUSHBACK && asked.is_zero();
    AttemptReport {
        pushback: match (has(Flag::STOP), has(Flag::AFTER)) {
            (true, false) => Some(ServerPushback::Stop),
            (false, true) => Some(ServerPushback::After(asked)),
            (true, true) if !unreadable => Some(ServerPushback::too_long(asked)),
            _ => None,
        },
        pushback_unreadable: unreadable,
        stage: match (word & STAGE) >> VALUE_BITS {
            1 => Some(Stage::Dispatch),
            2 => Some(Stage::InFlight),
            3 => Some(Stage::Response),
            _ => None,
        },
        own_answer: has(Flag::OWN_ANSWER),
        untried_backend: has(Flag::UNTRIED_BACKEND),
        forbidden: has(Flag::FORBIDDEN),
        in_doubt: has(Flag::IN_DOUBT),
        circuit_open: has(Flag::CIRCUIT_OPEN),
        config_coming: has(Flag::CONFIG_COMING),
        followed: word & FOLLOWED != 0,
    }
}
