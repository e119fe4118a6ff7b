//! Prints what each case allocates per call, and the size of its future.

use reattempt_benches::{cases, with_timers};

fn main() {
    println!(
        "{:<26} {:>12} {:>12} {:>12}",
        "case", "allocations", "bytes", "future"
    );
    with_timers(|| {
        for case in cases::all() {
            let (count, bytes) = per_call(case.run);
            println!(
                "{:<26} {:>12} {:>12} {:>12}",
                case.name, count, bytes, case.future
            );
        }
    });
}

/// The difference between 2000 calls and 1000, so that building the service does not count.
fn per_call(run: fn(u64) -> u64) -> (u64, u64) {
    let of = |calls| {
        allocation_counter::measure(|| {
            run(calls);
        })
    };
    let (one, two) = (of(1000), of(2000));
    (
        (two.count_total - one.count_total) / 1000,
        (two.bytes_total - one.bytes_total) / 1000,
    )
}
