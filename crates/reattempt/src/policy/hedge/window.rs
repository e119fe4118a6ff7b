//! How many hedges may be sent in one second.

#[cfg(all(test, reattempt_loom))]
mod models;
#[cfg(test)]
mod tests;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A slot is 2²⁶ ns: fifteen of them are 1.007 s.
const SLOT_BITS: u32 = 26;
const SECOND: u16 = 15;
const SLOTS: usize = 16;
/// Allowed in a second beyond the share while more hedges are asked for than chance explains: 1.3
/// of 100 calls.
const SPARE: f32 = 0.013;
/// In other seconds: 1.45 of 100 calls, or a part of what chance adds to the share, in standard
/// deviations: that is more below some thousand calls a second.
const USUAL: f32 = 0.0145;
const CHANCE: f32 = 1.5;
/// More than chance explains, in standard deviations, of a tenth of a second.
const RUSH: f32 = 2.5;
/// Allowed in any second, however few calls there are.
const LEAST: u32 = 4;

/// The number of a slot, the hedges sent in it, and the calls that had been counted when it began.
#[derive(Clone, Copy)]
struct Slot {
    number: u16,
    hedges: u16,
    calls: u32,
}

impl Slot {
    fn unpack(word: u64) -> Self {
        Self {
            number: (word >> 48) as u16,
            hedges: (word >> 32) as u16,
            calls: word as u32,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.number) << 48 | u64::from(self.hedges) << 32 | u64::from(self.calls)
    }
}

/// Counts hedges and calls of the last second, and refuses a hedge beyond the share.
#[derive(Debug)]
pub(super) struct Window {
    slots: [AtomicU64; SLOTS],
    /// The hedges that were asked for in each slot, with its number.
    asked: [AtomicU32; SLOTS],
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            asked: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Time has come to this instant, with this number of calls. Returns the slot's number.
    pub(super) fn tick(&self, nanos: u64, calls: u64) -> u16 {
        // Slot 0 of an empty window would be a slot that was never used.
        let number = ((nanos >> SLOT_BITS) + 1) as u16;
        let slot = &self.slots[usize::from(number) % SLOTS];
        let word = slot.load(Ordering::Relaxed);
        if Slot::unpack(word).number != number {
            let new = Slot {
                number,
                hedges: 0,
                calls: calls as u32,
            };
            // Another caller may have begun the slot: then it is begun.
            let _ = slot.compare_exchange(word, new.pack(), Ordering::Relaxed, Ordering::Relaxed);
        }
        number
    }

    /// Counts one more hedge that is asked for, in the slot of this number.
    fn ask(&self, number: u16) {
        let asked = &self.asked[usize::from(number) % SLOTS];
        let _ = asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let same = (word >> 16) as u16 == number;
            let count = if same { word & 0xffff } else { 0 };
            Some(u32::from(number) << 16 | (count + 1).min(0xffff))
        });
    }

    /// Takes one hedge of the second, with this share of the calls. False if it would be too many.
    /// `again`: it was refused before.
    pub(super) fn take(&self, nanos: u64, calls: u64, share: f32, again: bool) -> bool {
        let number = self.tick(nanos, calls);
        if !again {
            self.ask(number);
        }
        let own = &self.slots[usize::from(number) % SLOTS];
        // Counted before it is looked at whether it fits: two at once never both take the last.
        let counted = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let mut slot = Slot::unpack(word);
            slot.hedges = slot.hedges.checked_add(1)?;
            (slot.number == number).then(|| slot.pack())
        });
        if counted.is_err() {
            return false;
        }
        let (mut hedges, mut began, mut oldest) = (0, calls as u32, 0);
        let mut lately = calls as u32;
        for slot in &self.slots {
            let slot = Slot::unpack(slot.load(Ordering::Relaxed));
            let age = number.wrapping_sub(slot.number);
            if age < SECOND {
                hedges += u32::from(slot.hedges);
                if age <= 1 {
                    lately = lately.min(slot.calls);
                }
                if age >= oldest {
                    (oldest, began) = (age, slot.calls);
                }
            }
        }
        let seen = (calls as u32).wrapping_sub(began);
        let seen = seen as f32;
        let most = if self.is_rush(number, share * (calls as u32).wrapping_sub(lately) as f32) {
            (0.97 * share + SPARE) * seen
        } else {
            share * seen + (USUAL * seen).max(CHANCE * (share * seen).sqrt())
        };
        if hedges <= (most as u32).max(LEAST) {
            return true;
        }
        let _ = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let mut slot = Slot::unpack(word);
            slot.hedges = slot.hedges.checked_sub(1)?;
            (slot.number == number).then(|| slot.pack())
        });
        false
    }

    /// Whether in this slot and the one before more hedges were asked for than chance explains, if
    /// this number is usual.
    fn is_rush(&self, number: u16, usual: f32) -> bool {
        let asked = self.asked.iter().map(|word| word.load(Ordering::Relaxed));
        let lately = asked.filter(|word| number.wrapping_sub((word >> 16) as u16) <= 1);
        let lately: u32 = lately.map(|word| word & 0xffff).sum();
        lately as f32 > usual + RUSH * usual.sqrt() + 3.0
    }
}
