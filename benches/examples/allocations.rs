//! Prints what each case allocates per call, and the size of its future.

use reattempt_benches::{allocations_per_call, cases, http_calls, kv, typical, with_timers};

fn main() {
    println!(
        "{:<26} {:>12} {:>12} {:>12}",
        "case", "allocations", "bytes", "future"
    );
    with_timers(|| {
        let cases = cases::all()
            .into_iter()
            .chain(kv::all())
            .chain(http_calls::all());
        for case in cases.chain(typical::all()) {
            let (count, bytes) = allocations_per_call(case.run, total);
            println!(
                "{:<26} {:>12} {:>12} {:>12}",
                case.name, count, bytes, case.future
            );
        }
    });
}

/// Allocations and bytes, freed or not.
fn total(work: &mut dyn FnMut()) -> (u64, u64) {
    let counted = allocation_counter::measure(work);
    (counted.count_total, counted.bytes_total)
}
