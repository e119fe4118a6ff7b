//! Which delay costs a share.

use super::super::survival::Curve;

/// Over a stretch of delays that the same attempts exceed, about as many as the share, the shortest
/// is taken: and the share bounds how many of them are hedged. They are about as many if the
/// difference may be chance, in standard deviations; at least, and at most.
const STRETCH: f32 = 0.75;
const CHANCE: f32 = 2.0;
const FLAT: f32 = 0.06;
const MOST_FLAT: f32 = 0.3;
/// At its begin attempts of other kinds exceed it, too: this part of the share.
const FEW: f32 = 0.02;

/// The delay that this share of the attempts exceeds, and this many more or fewer.
pub(super) fn delay(curve: &Curve, share: f32, more: f32) -> f32 {
    let exact = curve.exceeded_by(share + more);
    let margin = (CHANCE / (share * curve.attempts()).sqrt()).clamp(FLAT, MOST_FLAT);
    let early = curve.exceeded_by((share * (1.0 + margin)).min(0.9));
    if early >= STRETCH * exact {
        return exact;
    }
    // Only those that exceed the whole stretch, and a few.
    let slow = curve.exceeds(early / STRETCH) * (1.0 + FEW);
    curve.exceeded_by(slow).max(early)
}
