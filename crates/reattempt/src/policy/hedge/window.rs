//! How many hedges may be sent in one second.

#[cfg(all(test, reattempt_loom))]
mod models;
#[cfg(test)]
mod tests;

use crate::sync::{AtomicU64, Ordering};

/// A slot is 2²⁶ ns: fifteen of them are 1.007 s.
const SLOT_BITS: u32 = 26;
const SECOND: u16 = 15;
const SLOTS: usize = 16;
/// Allowed in a second beyond the share: 1.4 of 100 calls, or what chance adds to the share, in
/// standard deviations: that is more below some 600 calls a second.
const SPARE: f32 = 0.014;
const CHANCE: f32 = 1.0;
/// The more of that is taken, the longer must a call have waited, in parts of the delay: so that
/// what is left is for the slowest.
const PATIENCE: f32 = 0.03;
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
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
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

    /// Takes one hedge of the second, with this share of the calls, for a call that has waited this
    /// many times the delay. Refused with how many it has to be now.
    pub(super) fn take(&self, nanos: u64, calls: u64, share: f32, waited: f32) -> Result<(), f32> {
        let number = self.tick(nanos, calls);
        let own = &self.slots[usize::from(number) % SLOTS];
        // Counted before it is looked at whether it fits: two at once never both take the last.
        let counted = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let mut slot = Slot::unpack(word);
            slot.hedges = slot.hedges.checked_add(1)?;
            (slot.number == number).then(|| slot.pack())
        });
        if counted.is_err() {
            return Err(f32::INFINITY);
        }
        let (mut hedges, mut began, mut oldest) = (0, calls as u32, 0);
        for slot in &self.slots {
            let slot = Slot::unpack(slot.load(Ordering::Relaxed));
            let age = number.wrapping_sub(slot.number);
            if age < SECOND {
                hedges += u32::from(slot.hedges);
                if age >= oldest {
                    (oldest, began) = (age, slot.calls);
                }
            }
        }
        // Another caller may have begun the window with a later number.
        let calls = ((calls as u32).wrapping_sub(began) as i32).max(0);
        let usual = share * calls as f32;
        let spare = (SPARE / share * usual).max(CHANCE * usual.sqrt());
        let taken = ((hedges as f32 - usual) / spare).clamp(0.0, 1.0);
        let patience = 1.0 + PATIENCE * taken * taken / (1.0 - taken);
        let fits = taken == 0.0 || taken < 1.0 && waited >= patience;
        if fits || hedges <= LEAST {
            return Ok(());
        }
        let _ = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let mut slot = Slot::unpack(word);
            slot.hedges = slot.hedges.checked_sub(1)?;
            (slot.number == number).then(|| slot.pack())
        });
        Err(patience)
    }
}
