//! The four plots of a protocol.

use super::plot::{Plot, bars};
use crate::demo::comparison::Comparison;
use crate::demo::stats::Side;
use crate::demo::trouble::Weather;

const HEIGHT: f64 = 242.0;
/// Number of points of a line over time.
const BINS: usize = 50;
/// Maximum number of reasons shown.
const MOST_REASONS: usize = 9;

/// A plot over call numbers, with the phases in the background.
fn over_time(title: &'static str, comparison: &Comparison) -> Plot {
    let calls = comparison.plan.calls as f64;
    let mut plot = Plot::new(title, HEIGHT);
    for (at, phase) in comparison.phases.iter().enumerate() {
        let range = (phase.from as f64 / calls, phase.to as f64 / calls);
        let name = comparison.protocol.phase(phase.weather);
        let short = match phase.weather {
            Weather::Calm => "",
            Weather::Temporary => "temporary",
            _ => name,
        };
        let high = phase.weather == Weather::Overload;
        plot.band(range, (at % 2 == 1, high), short, name);
    }
    plot.below(0.0, "call 0");
    plot.below(0.5, &format!("{}", comparison.plan.calls / 2));
    plot.below(0.97, &format!("{}", comparison.plan.calls));
    plot
}

/// One value for each bin of calls, at the middle of the bin.
fn binned(
    comparison: &Comparison,
    value: impl Fn(usize, usize) -> f64,
) -> impl Iterator<Item = (f64, f64)> {
    let calls = comparison.plan.calls;
    (0..BINS).filter_map(move |bin| {
        let (from, to) = (bin * calls / BINS, (bin + 1) * calls / BINS);
        (from < to).then(|| ((from + to) as f64 / 2.0 / calls as f64, value(from, to)))
    })
}

/// The sides that are drawn, by the class of their lines.
fn both(comparison: &Comparison) -> [(&'static str, &Side); 2] {
    [("without", &comparison.without), ("with", &comparison.with)]
}

pub(super) fn success(comparison: &Comparison) -> String {
    let mut plot = over_time("Success over time", comparison);
    for quarter in 0..=4 {
        plot.across(f64::from(quarter) / 4.0, &format!("{} %", quarter * 25));
    }
    for (class, side) in both(comparison) {
        plot.line(class, binned(comparison, |from, to| side.success(from, to)));
    }
    plot.finish()
}

pub(super) fn attempts(comparison: &Comparison) -> String {
    let mut plot = over_time("Attempts per call", comparison);
    let line = |side: &Side| -> Vec<(f64, f64)> {
        binned(comparison, |from, to| side.attempts_per_call(from, to)).collect()
    };
    let highest = line(&comparison.with).into_iter();
    let most = highest.fold(2.0_f64, |most, (_, y)| most.max(y)).ceil();
    for whole in 0..=(most as u32) {
        plot.across(f64::from(whole) / most, &whole.to_string());
    }
    for (class, side) in both(comparison) {
        plot.line(class, line(side).into_iter().map(|(x, y)| (x, y / most)));
    }
    plot.finish()
}

/// Maps a tenth of a millisecond to a second, logarithmically.
fn place_of(millis: f64) -> f64 {
    (millis.max(0.1).log10() + 1.0) / 4.0
}

pub(super) fn latency(comparison: &Comparison) -> String {
    let mut plot = Plot::new("Time to an answer", HEIGHT);
    for quarter in 0..=4 {
        plot.across(f64::from(quarter) / 4.0, &format!("{} %", quarter * 25));
    }
    for (millis, label) in [
        (0.1, "0.1 ms"),
        (1.0, "1"),
        (10.0, "10"),
        (100.0, "100"),
        (850.0, "1 s"),
    ] {
        plot.below(place_of(millis), label);
    }
    for (class, side) in both(comparison) {
        let all = side.records.len().max(1) as f64;
        let worked = side.latencies.len();
        // One point for every few calls, and each of the slowest.
        let step = (worked / 300).max(1);
        let shown = |at: &usize| at % step == 0 || at + 60 >= worked;
        let mut places: Vec<_> = (0..worked)
            .filter(shown)
            .map(|at| {
                let millis = side.latencies[at].as_secs_f64() * 1e3;
                (place_of(millis), (at + 1) as f64 / all)
            })
            .collect();
        places.push((1.0, worked as f64 / all));
        plot.line(class, places);
    }
    plot.finish()
}

pub(super) fn reasons(comparison: &Comparison) -> String {
    let reasons = comparison.with.reasons();
    bars(
        "Why attempts failed",
        &reasons[..reasons.len().min(MOST_REASONS)],
    )
}
