//! The memory held by a call in flight, pinned: it does not depend on the load of the machine.

use reattempt_benches::{in_flight, with_timers};

/// Tokio's timer and the number of its runtime. The size of the timer depends on tokio's features,
/// which other packages of a build may enable.
const TIMER: u64 = size_of::<tokio::time::Sleep>() as u64 + 8;

/// Case, bytes held per call, allocations. A change here is a decision: justify it in the commit.
#[cfg(target_pointer_width = "64")]
const PINS: [(&str, u64, u64); 12] = [
    ("no layers", 40, 1),
    ("no policy", TIMER + 3201, 11),
    ("retried, attempt out", TIMER + 3201, 11),
    ("retried, in back-off", TIMER + 4177, 15),
    ("hedged, 1 attempt out", TIMER + 3201, 11),
    ("hedged, 3 attempts out", TIMER + 4281, 18),
    ("inline: no policy", TIMER + 2229, 8),
    ("inline: retried", TIMER + 2229, 8),
    ("inline: in back-off", TIMER + 3205, 12),
    ("inline: hedged", 2 * TIMER + 2461, 10),
    ("key-value: six layers", TIMER + 496, 3),
    ("key-value: hedged", TIMER + 368, 3),
];

#[cfg(target_pointer_width = "64")]
#[test]
fn calls_in_flight_keep_what_is_pinned() {
    let kept = with_timers(|| in_flight::all(held));
    let found: Vec<_> = kept
        .iter()
        .map(|kept| (kept.name, kept.bytes, kept.allocations))
        .collect();
    assert_eq!(found, PINS, "a timer has {TIMER} bytes");
}

/// Allocations and bytes that are not freed.
fn held(work: &mut dyn FnMut()) -> (u64, u64) {
    let counted = allocation_counter::measure(work);
    let held = |sum| u64::try_from(sum).unwrap_or(0);
    (held(counted.count_current), held(counted.bytes_current))
}
