//! Prints what each case allocates per call, and the size of its future.

use reattempt_benches::{allocations_per_call, cases, kv, with_timers};

fn main() {
    println!(
        "{:<26} {:>12} {:>12} {:>12}",
        "case", "allocations", "bytes", "future"
    );
    with_timers(|| {
        for case in cases::all().into_iter().chain(kv::all()) {
            let (count, bytes) = allocations_per_call(case.run);
            println!(
                "{:<26} {:>12} {:>12} {:>12}",
                case.name, count, bytes, case.future
            );
        }
    });
}
