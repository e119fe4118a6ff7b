//! One of three backends is in trouble: what callers feel of it, on paused time.

mod sides;
mod world;

use std::time::Duration;

use sides::Side;
use world::{BACK, Fault, Felt};

const SEEDS: u64 = 3;

/// All of it.
pub(crate) fn print() {
    for fault in [Fault::Silent, Fault::Failing, Fault::Slow] {
        println!(
            "\none of three backends {fault:?} from second 10 to 40; calls of the seconds 12 to 40"
        );
        println!(
            "{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "", "success", "p50 ms", "p99 ms", "p99.9", "felt %", "asked %", "uneven"
        );
        for side in Side::ALL {
            let felt: Vec<_> = (1..=SEEDS)
                .map(|seed| world::run(|servers| side.client(servers), fault, seed))
                .collect();
            println!("{:<24}{}", side.name(), row(&felt));
        }
    }
    println!(
        "\nfelt: failed, or took more than {} ms; asked: requests to it, of 100 calls;\n\
         uneven: the most used backend's share over the least used one's, {} to {} s after all are back",
        world::FELT.as_millis(),
        BACK.start - 40,
        BACK.end - 40,
    );
}

/// The means of all seeds.
fn row(felt: &[Felt]) -> String {
    let mean = |of: &dyn Fn(&Felt) -> f64| felt.iter().map(of).sum::<f64>() / felt.len() as f64;
    let millis = |share: f64| mean(&|felt| felt.percentile(share).map_or(f64::NAN, in_millis));
    let of_calls = |count: usize, felt: &Felt| 100.0 * count as f64 / felt.calls.max(1) as f64;
    format!(
        "{:>9.4}{:>9.1}{:>9.1}{:>9.1}{:>9.2}{:>9.2}{:>9.2}",
        mean(&|felt| felt.took.len() as f64 / felt.calls.max(1) as f64),
        millis(0.5),
        millis(0.99),
        millis(0.999),
        mean(&|felt| of_calls(felt.felt(), felt)),
        mean(&|felt| of_calls(felt.asked, felt)),
        mean(&Felt::uneven),
    )
}

fn in_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
