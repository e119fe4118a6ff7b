//! Prints the memory held by a call in flight; the gRPC calls have a message of 1 KiB.

use reattempt_benches::{in_flight, with_timers};

fn main() {
    println!(
        "{:<24} {:>12} {:>12} {:>12}",
        "case", "bytes", "allocations", "future"
    );
    with_timers(|| {
        for kept in in_flight::all() {
            println!(
                "{:<24} {:>12} {:>12} {:>12}",
                kept.name, kept.bytes, kept.allocations, kept.future
            );
        }
    });
}
