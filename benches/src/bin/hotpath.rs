//! Times the cases, or sends calls through one of them for an instruction counter.
//!
//! `hotpath` prints nanoseconds per call and the ratio to tower's retry with budget over timeout:
//! the median of rounds in which each case runs once. `hotpath CASE N` sends N calls and prints
//! nothing.

use reattempt_benches::{balance, cases, http_calls, kv, learned, observed, typical, with_timers};

const ROUNDS: usize = 31;
const CALLS: u64 = 20_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some(name), Some(calls)) = (arguments.next(), arguments.next()) {
        let case =
            reattempt_benches::named(&name).unwrap_or_else(|| panic!("no case named {name}"));
        let calls = calls.parse().expect("a number of calls");
        with_timers(|| (case.run)(calls));
        return;
    }
    with_timers(table);
}

#[allow(
    clippy::disallowed_methods,
    reason = "times real work, on the real clock"
)]
fn table() {
    let mut cases = cases::all();
    let tower = cases.len() - 1;
    cases.push(observed::counted());
    cases.extend(learned::all());
    cases.extend(kv::all());
    cases.extend(http_calls::all());
    cases.extend(balance::all());
    cases.extend(typical::all());
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter().zip(&mut times) {
            let start = std::time::Instant::now();
            (case.run)(CALLS);
            let spent = start.elapsed();
            times.push(spent.as_nanos() as f64 / CALLS as f64);
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect();
    let tower = medians[tower];
    println!("{:<26} {:>10} {:>10}", "case", "ns/call", "of tower");
    for (case, median) in cases.iter().zip(&medians) {
        println!(
            "{:<26} {:>10.1} {:>10.2}",
            case.name,
            median,
            median / tower
        );
    }
}
