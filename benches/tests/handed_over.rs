//! Allocations of calls that end on another thread, pinned. Alone in its process: what threads
//! leave to each other is the process's.

use reattempt_benches::{handed_over, with_timers};

/// What calls reuse goes back to the thread that begins them. Of an HTTP call the context that the
/// transport gets takes three allocations.
#[test]
fn what_many_calls_or_other_threads_left_is_reused() {
    let found = with_timers(|| handed_over::all(total)).map(|it| (it.name, it.begun, it.ended));
    assert_eq!(found, [("key-value", 0, 0), ("http, preset", 3, 0)]);
    assert_eq!(
        with_timers(|| handed_over::together(total)),
        0,
        "200 at once"
    );
}

/// Allocations and bytes, freed or not.
fn total(work: &mut dyn FnMut()) -> (u64, u64) {
    let counted = allocation_counter::measure(work);
    (counted.count_total, counted.bytes_total)
}
