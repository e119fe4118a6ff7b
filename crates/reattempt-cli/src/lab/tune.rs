//! `reattempt lab --tune`: what success costs.

use std::fmt::Write;

use reattempt::config::Fault;
use reattempt_lab::Scenario;
use reattempt_lab::tune::{Knob, Point, tune};

use super::{Arguments, faults};

/// The number of seeds without `--seeds`.
const SEEDS: u32 = 3;

pub(super) fn search(arguments: &Arguments, scenario: &Scenario) -> Result<Vec<Point>, Vec<Fault>> {
    let first = scenario.policies().next().unwrap_or_default().to_owned();
    let name = arguments.tuned.as_ref().unwrap_or(&first);
    let limits = arguments.limits();
    let seeds = arguments.seeds.unwrap_or(SEEDS);
    tune(scenario, name, &arguments.tune, seeds, &limits).map_err(faults)
}

pub(super) fn json(points: &[Point]) -> String {
    serde_json::json!({ "frontier": points }).to_string()
}

/// A value with its unit; attempts and tokens have none.
fn setting((knob, value): &(Knob, f64)) -> String {
    let unit = match knob {
        Knob::Backoff | Knob::HedgeDelay => " s",
        Knob::HedgeShare => " %",
        Knob::Attempts | Knob::Throttle => "",
    };
    format!("{} {value}{unit}", knob.name())
}

/// The frontier, and below it the policies.
pub(super) fn table(points: &[Point]) -> String {
    let mut out = format!(
        "{:>3} {:>9} {:>11} {:>9}  settings\n",
        "", "success", "extra load", "p99 ms"
    );
    for (at, point) in points.iter().enumerate() {
        let settings: Vec<String> = point.settings.iter().map(setting).collect();
        let load = point.extra_load.map(|load| load * 100.0);
        let load = load.map_or("-".to_owned(), |load| format!("{load:.2} %"));
        let p99 = point.p99_ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        let _ = writeln!(
            out,
            "{:>3} {:>7.2} % {load:>11} {p99:>9}  {}",
            at + 1,
            point.success * 100.0,
            settings.join(", ")
        );
    }
    out.push('\n');
    for (at, point) in points.iter().enumerate() {
        let _ = writeln!(out, "{}: {}", at + 1, point.policy);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_their_units() {
        let settings = [
            (Knob::Attempts, 3.0),
            (Knob::Backoff, 0.138),
            (Knob::HedgeShare, 1.4),
        ];
        let shown = ["attempts 3", "backoff 0.138 s", "hedge-share 1.4 %"];
        assert_eq!(settings.each_ref().map(setting), shown);
    }
}
