//! The policies side by side.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::short;
use crate::report::{Outcome, Report};

/// The width of the first column, unless that makes two names equal.
const NAME: usize = 32;

/// A table of the policies, and below it how calls ended and the findings.
#[must_use]
pub fn table(report: &Report) -> String {
    let names = names(report, NAME);
    let lengths = names.iter().map(|name| name.chars().count());
    let width = lengths.max().unwrap_or(0).max(NAME);
    let mut out = format!(
        "{:width$} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>9} {:>9}\n",
        "policy",
        "calls",
        "success",
        "load",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "held back",
        "recovered"
    );
    for (name, (_, outcome)) in names.iter().zip(&report.policies) {
        row(&mut out, &format!("{name:width$}"), outcome);
    }
    for (name, (_, outcome)) in self::names(report, 80).iter().zip(&report.policies) {
        let _ = write!(out, "\n{name}:");
        for (how, count) in &outcome.ended {
            let _ = write!(out, " {how} {count}");
        }
        out.push('\n');
        for (at, tier) in outcome.tiers.iter().enumerate() {
            let load = of_calls(outcome, || format!("{:.2}", tier.amplification));
            let _ = writeln!(out, "  tier {}: {load} attempts a call", at + 1);
        }
        for finding in &outcome.findings {
            let _ = writeln!(
                out,
                "  {} ({}): {}\n    {}",
                finding.rule,
                printable(&finding.path),
                finding.text,
                finding.evidence
            );
        }
    }
    out
}

/// The names of the policies, each in at most this many characters, or in up to four times as many
/// where fewer make two of them equal.
fn names(report: &Report, most: usize) -> Vec<String> {
    let names = report.policies.iter().map(|(name, _)| printable(name));
    let names: Vec<String> = names.collect();
    let cut = |most| -> Vec<String> { names.iter().map(|name| short(name, most)).collect() };
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let mut fewer = [most, 2 * most].into_iter().map(cut);
    fewer.find(differ).unwrap_or_else(|| cut(4 * most))
}

/// A figure that is a share of the calls; `-` if there are none.
fn of_calls(outcome: &Outcome, figure: impl FnOnce() -> String) -> String {
    match outcome.calls {
        0 => "-".to_owned(),
        _ => figure(),
    }
}

fn row(out: &mut String, name: &str, outcome: &Outcome) {
    let millis = |time: Option<f64>| time.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let held: u64 = outcome.held_back.values().sum();
    let success = of_calls(outcome, || format!("{:.2} %", outcome.success * 100.0));
    let load = of_calls(outcome, || format!("{:.3}", outcome.amplification));
    let recovered = match outcome.recovered_s {
        Some(seconds) => format!("{seconds:.0} s"),
        None if outcome.never_recovered => "never".to_owned(),
        None => "-".to_owned(),
    };
    let _ = writeln!(
        out,
        "{name} {:>8} {success:>8} {load:>7} {:>8} {:>8} {:>8} {held:>9} {recovered:>9}",
        outcome.calls,
        millis(outcome.latency_ms.p50),
        millis(outcome.latency_ms.p99),
        millis(outcome.latency_ms.p999),
    );
}

/// Names come from a document, which may have any character.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
