//! The small facts of an attempt packed into one word, so that a context is cheap to copy.

use crate::call::attempt_key::{AttemptKey, SLOTS};
use crate::call::method_name::MethodName;
use crate::policy::admission::Criticality;
use crate::{AttemptKind, Idempotency};

/// Flags, kind and idempotency are in the low half, where one instruction tests them; the attempt
/// number is in the high half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptBits(u64);

/// A recovery layer acts on the call.
pub(crate) const CLAIMED: u64 = 1;
/// The deadline is enforced.
pub(crate) const ENFORCED: u64 = 1 << 1;
/// The caller set an option; layers alone do not set this flag.
pub(crate) const CALLER: u64 = 1 << 2;
/// A layer attached the route's policy.
pub(crate) const POLICY: u64 = 1 << 3;
/// A layer attached its throttle.
pub(crate) const THROTTLE: u64 = 1 << 4;
/// A layer knows the call: from then on the caller sees it.
pub(crate) const BEGUN: u64 = 1 << 5;

/// Which of the attempt's responses a reporter follows, modulo four.
#[cfg(feature = "tokio")]
const STEP_SHIFT: u32 = 6;
#[cfg(feature = "tokio")]
const STEP: u64 = (STEPS as u64 - 1) << STEP_SHIFT;
/// Steps of an attempt are counted modulo this: as many more would have to begin before the first
/// one's response has ended.
#[cfg(feature = "tokio")]
pub(crate) const STEPS: u8 = 4;
const KIND_SHIFT: u32 = 8;
const KIND: u64 = 0b11 << KIND_SHIFT;
const IDEMPOTENCY_SHIFT: u32 = 10;
const IDEMPOTENCY: u64 = 0b11 << IDEMPOTENCY_SHIFT;
const SLOT_SHIFT: u32 = 12;
const SLOT: u64 = 0b111 << SLOT_SHIFT;
/// Every slot has its number in these bits.
const _: () = assert!(SLOT >> SLOT_SHIFT == SLOTS as u64 - 1);
/// Another attempt is in flight beside this hedge, and if it fails the policy has a further one.
pub(crate) const MAY_LOSE: u64 = 1 << 15;
/// With the default as zero.
const CRITICALITY_SHIFT: u32 = 16;
const CRITICALITY: u64 = 0b11 << CRITICALITY_SHIFT;
/// The number of a [`MethodName`], at most 10,000, or 0.
const METHOD_SHIFT: u32 = 18;
const METHOD: u64 = 0x3fff << METHOD_SHIFT;
const NUMBER_SHIFT: u32 = 32;

impl AttemptBits {
    #[inline]
    pub(crate) const fn attempt(self) -> u32 {
        (self.0 >> NUMBER_SHIFT) as u32
    }

    #[inline]
    pub(crate) const fn kind(self) -> AttemptKind {
        match (self.0 & KIND) >> KIND_SHIFT {
            0 => AttemptKind::Initial,
            1 => AttemptKind::Retry,
            2 => AttemptKind::Hedge,
            _ => AttemptKind::Transparent,
        }
    }

    #[inline]
    pub(crate) const fn key(self) -> AttemptKey {
        AttemptKey {
            attempt: self.attempt(),
            slot: ((self.0 & SLOT) >> SLOT_SHIFT) as u8,
        }
    }

    #[inline]
    pub(crate) const fn set_attempt(&mut self, key: AttemptKey, kind: AttemptKind) {
        let rest = self.0 & ((1 << NUMBER_SHIFT) - 1) & !(KIND | SLOT | MAY_LOSE);
        self.0 = rest
            | (key.attempt as u64) << NUMBER_SHIFT
            | (kind as u64) << KIND_SHIFT
            | ((key.slot as u64) << SLOT_SHIFT) & SLOT;
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn step(self) -> u8 {
        ((self.0 & STEP) >> STEP_SHIFT) as u8
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn set_step(&mut self, step: u8) {
        self.0 = (self.0 & !STEP) | ((step as u64) << STEP_SHIFT) & STEP;
    }

    /// Claimed, with the first attempt in its own slot; before this a context belongs to no
    /// attempt.
    #[inline]
    pub(crate) const fn claim_first(&mut self) {
        self.0 |= CLAIMED | BEGUN | (1 << NUMBER_SHIFT) | (1 << SLOT_SHIFT);
    }

    /// The first attempt in its own slot, of a call that no recovery layer acts on so far.
    #[inline]
    pub(crate) const fn pass_first(&mut self) {
        self.0 |= BEGUN | (1 << NUMBER_SHIFT) | (1 << SLOT_SHIFT);
    }

    /// Of no attempt, and of a call that no layer knows. A layer that enforced the deadline of the
    /// call that is left need not be around this one.
    #[inline]
    pub(crate) const fn leave_call(&mut self) {
        if self.has(BEGUN) {
            self.0 &= !ENFORCED;
        }
        self.0 &= ((1 << NUMBER_SHIFT) - 1) & !(BEGUN | KIND | SLOT | MAY_LOSE);
    }

    #[inline]
    pub(crate) const fn idempotency(self) -> Idempotency {
        match (self.0 & IDEMPOTENCY) >> IDEMPOTENCY_SHIFT {
            0 => Idempotency::Unknown,
            1 => Idempotency::Idempotent,
            2 => Idempotency::NotIdempotent,
            _ => Idempotency::WithinCall,
        }
    }

    #[inline]
    pub(crate) const fn set_idempotency(&mut self, idempotency: Idempotency) {
        let value: u64 = match idempotency {
            Idempotency::Unknown => 0,
            Idempotency::Idempotent => 1,
            Idempotency::NotIdempotent => 2,
            Idempotency::WithinCall => 3,
        };
        self.0 = (self.0 & !IDEMPOTENCY) | (value << IDEMPOTENCY_SHIFT);
    }

    pub(crate) const fn method(self) -> Option<MethodName> {
        MethodName::of_number(((self.0 & METHOD) >> METHOD_SHIFT) as u16)
    }

    pub(crate) const fn set_method(&mut self, method: MethodName) {
        self.0 = (self.0 & !METHOD) | (method.number() as u64) << METHOD_SHIFT;
    }

    #[inline]
    pub(crate) const fn criticality(self) -> Criticality {
        let stored = ((self.0 & CRITICALITY) >> CRITICALITY_SHIFT) as u8;
        Criticality::new(stored ^ Criticality::CRITICAL.number())
    }

    #[inline]
    pub(crate) const fn set_criticality(&mut self, criticality: Criticality) {
        let stored = criticality.number() ^ Criticality::CRITICAL.number();
        self.0 = (self.0 & !CRITICALITY) | ((stored as u64) << CRITICALITY_SHIFT);
    }

    #[inline]
    pub(crate) const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: u64) {
        self.0 |= flag;
    }

    #[inline]
    pub(crate) const fn put(&mut self, flag: u64, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_number_one_in_its_own_slot() {
        let mut bits = AttemptBits::default();
        assert_eq!(bits.criticality(), Criticality::CRITICAL);
        bits.set(ENFORCED);
        bits.claim_first();
        assert!(bits.has(CLAIMED) && bits.has(ENFORCED));
        assert_eq!(
            bits.key(),
            AttemptKey {
                attempt: 1,
                slot: 1,
            }
        );
        assert_eq!(bits.kind(), AttemptKind::Initial);
    }

    #[test]
    fn a_passed_call_has_an_attempt_until_it_is_copied() {
        let mut bits = AttemptBits::default();
        bits.set(CALLER);
        bits.pass_first();
        assert!(bits.has(BEGUN) && !bits.has(CLAIMED));
        assert_eq!(
            bits.key(),
            AttemptKey {
                attempt: 1,
                slot: 1,
            }
        );
        bits.leave_call();
        assert!(bits.has(CALLER) && !bits.has(BEGUN));
        assert_eq!(
            bits.key(),
            AttemptKey {
                attempt: 0,
                slot: 0,
            }
        );
    }

    #[test]
    fn no_field_touches_another() {
        let mut bits = AttemptBits::default();
        for kind in [
            AttemptKind::Transparent,
            AttemptKind::Hedge,
            AttemptKind::Retry,
            AttemptKind::Initial,
        ] {
            for idempotency in [
                Idempotency::NotIdempotent,
                Idempotency::Idempotent,
                Idempotency::WithinCall,
                Idempotency::Unknown,
            ] {
                let key = AttemptKey {
                    attempt: u32::MAX,
                    slot: 7,
                };
                bits.set_attempt(key, kind);
                assert_eq!(bits.key(), key);
                assert!(!bits.has(MAY_LOSE));
                bits.set(MAY_LOSE);
                assert_eq!(bits.key(), key);
                bits.set_idempotency(idempotency);
                assert_eq!(bits.attempt(), u32::MAX);
                assert_eq!((bits.kind(), bits.idempotency()), (kind, idempotency));
                for number in (0..4).rev() {
                    let criticality = Criticality::new(number);
                    bits.set_criticality(criticality);
                    assert_eq!(bits.criticality(), criticality);
                    assert_eq!((bits.kind(), bits.idempotency()), (kind, idempotency));
                    assert_eq!(bits.key(), key);
                }
                assert!(!bits.has(CLAIMED | ENFORCED | CALLER | POLICY | THROTTLE | BEGUN));
            }
        }
        let method = MethodName::of_number((1 << 14) - 1).unwrap();
        assert_eq!(bits.method(), None);
        bits.set_method(method);
        assert_eq!(bits.attempt(), u32::MAX);
        assert!(!bits.has(CLAIMED | ENFORCED | CALLER | POLICY | THROTTLE | BEGUN));
        bits.set(CLAIMED);
        bits.put(ENFORCED, true);
        bits.put(ENFORCED, false);
        assert_eq!(bits.method(), Some(method));
        assert!(bits.has(CLAIMED) && !bits.has(ENFORCED | CALLER));
        assert_eq!(bits.attempt(), u32::MAX);
    }
}
