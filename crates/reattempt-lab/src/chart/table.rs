//! The policies side by side.

use std::fmt::Write;

use super::short;
use crate::report::{Outcome, Report};

const NAME: usize = 32;

/// A table of the policies, and below it how calls ended and the findings.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut out = format!(
        "{:NAME$} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>9} {:>9}\n",
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
    for (name, outcome) in &report.policies {
        row(&mut out, name, outcome);
    }
    for (name, outcome) in &report.policies {
        let _ = write!(out, "\n{}:", short(&printable(name), 80));
        for (how, count) in &outcome.ended {
            let _ = write!(out, " {how} {count}");
        }
        out.push('\n');
        for (at, tier) in outcome.tiers.iter().enumerate() {
            let (tier, load) = (at + 1, tier.amplification);
            let _ = writeln!(out, "  tier {tier}: {load:.2} attempts a call");
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

fn row(out: &mut String, name: &str, outcome: &Outcome) {
    let millis = |time: Option<f64>| time.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let held: u64 = outcome.held_back.values().sum();
    let recovered = match outcome.recovered_s {
        Some(seconds) => format!("{seconds:.0} s"),
        None if outcome.never_recovered => "never".to_owned(),
        None => "-".to_owned(),
    };
    let _ = writeln!(
        out,
        "{:NAME$} {:>8} {:>6.2} % {:>7.3} {:>8} {:>8} {:>8} {held:>9} {recovered:>9}",
        short(&printable(name), NAME),
        outcome.calls,
        outcome.success * 100.0,
        outcome.amplification,
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
