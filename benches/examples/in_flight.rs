//! Prints the memory held by a call in flight; the gRPC calls have a message of 1 KiB.

use reattempt_benches::{in_flight, with_timers};

fn main() {
    println!(
        "{:<24} {:>12} {:>12} {:>12}",
        "case", "bytes", "allocations", "future"
    );
    with_timers(|| {
        for kept in in_flight::all(held) {
            println!(
                "{:<24} {:>12} {:>12} {:>12}",
                kept.name, kept.bytes, kept.allocations, kept.future
            );
        }
    });
}

/// Allocations and bytes that are not freed.
fn held(work: &mut dyn FnMut()) -> (u64, u64) {
    let counted = allocation_counter::measure(work);
    let held = |sum| u64::try_from(sum).unwrap_or(0);
    (held(counted.count_current), held(counted.bytes_current))
}
