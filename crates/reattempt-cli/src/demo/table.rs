//! The results for people: one table per protocol, at most a hundred columns wide.

use std::fmt::Write;
use std::time::Duration;

use reattempt::StopReason;

use super::comparison::Comparison;
use super::load::Plan;
use super::protocol::Protocol;
use super::stats::Side;
use super::style::{Style, millis};
use super::waterfall;

/// The maximum line width.
pub(crate) const WIDTH: usize = 98;
/// The width of the first column.
pub(crate) const LABEL: usize = 22;
/// The width of the first column of the phases.
pub(crate) const PHASE: usize = 18;

/// The heading before the demo runs.
pub(crate) fn heading(plan: &Plan, chosen: &[Protocol], seconds: f64, style: Style) -> String {
    let names = chosen.iter().filter(|protocol| protocol.has_tower());
    let names: Vec<_> = names.map(|protocol| protocol.name()).collect();
    let tower = match &*names {
        [] => String::new(),
        names => format!(
            "The calls of {} are also made with tower's own retry. ",
            names.join(" and ")
        ),
    };
    let text = format!(
        "{} calls at {} a second for each protocol, once with the bare client and a plain timeout \
         of {} ms, once with the layers around the same client. {tower}The servers are embedded, \
         the sockets are real, and all sides meet the same script (seed {}). This takes about \
         {:.0} seconds.",
        grouped(plan.calls as u64),
        plan.rate,
        plan.limit.as_millis(),
        plan.seed,
        seconds.max(1.0),
    );
    format!("{}\n{}\n\n", style.bold("reattempt demo"), wrapped(&text))
}

/// The words in lines of at most the width.
fn wrapped(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// One protocol's results.
pub(crate) fn draw(comparison: &Comparison, style: Style) -> String {
    let mut out = String::new();
    let protocol = comparison.protocol;
    title(&mut out, protocol.name(), protocol.about(), style);
    figures(&mut out, comparison, style);
    phases(&mut out, comparison, style);
    lists(&mut out, comparison, style);
    out.push('\n');
    out.push_str(&waterfall::draw(comparison, style));
    out
}

/// The first line of a section.
pub(crate) fn title(out: &mut String, name: &str, about: &str, style: Style) {
    let used = 4 + name.len() + 2 + about.chars().count() + 1;
    let _ = writeln!(
        out,
        "━━ {}  {about} {}\n",
        style.bold(name),
        "━".repeat(WIDTH.saturating_sub(used)),
    );
}

/// The line of the names of the columns of figures.
pub(crate) fn columns<'a>(out: &mut String, names: impl Iterator<Item = &'a str>, style: Style) {
    let mut head = format!("{:LABEL$}", "");
    for name in names {
        let _ = write!(head, "{name:>10}");
    }
    let _ = writeln!(out, "{}", style.dim(&head));
}

/// A line of figures, of which the last stands out.
pub(crate) fn row(
    out: &mut String,
    label: &str,
    figures: impl ExactSizeIterator<Item = String>,
    tells: &str,
    style: Style,
) {
    let _ = write!(out, "{label:LABEL$}");
    let last = figures.len() - 1;
    for (at, figure) in figures.enumerate() {
        // Padded before styling: escape sequences have no width.
        let shown = format!("{figure:>10}");
        out.push_str(&if at == last {
            style.bold(&shown)
        } else {
            shown
        });
    }
    let _ = writeln!(out, "   {}", style.dim(tells));
}

fn figures(out: &mut String, comparison: &Comparison, style: Style) {
    let with = &comparison.with;
    let limit = comparison.plan.limit.as_millis();
    let sides = comparison.sides();
    columns(out, sides.iter().map(|(name, _)| *name), style);
    let mut line = |label: &str, figure: &dyn Fn(&Side) -> String, tells: &str| {
        row(
            out,
            label,
            sides.iter().map(|(_, side)| figure(side)),
            tells,
            style,
        );
    };
    line(
        "success",
        &|side| percent(side.total_success()),
        &format!("calls that got their answer within {limit} ms"),
    );
    let half = "half of the successful calls were faster";
    for (label, share, tells) in [
        ("latency p50", 0.5, half),
        ("latency p99", 0.99, "including retries and their delays"),
        ("latency p99.9", 0.999, "failed calls are not included"),
    ] {
        line(label, &|side| millis(side.percentile(share)), tells);
    }
    line(
        "attempts per call",
        &|side| format!("{:.2}", side.attempts_per_call(0, side.records.len())),
        "the load on the servers",
    );
    line(
        "held by the throttle",
        &|side| match std::ptr::eq(side, with) {
            true => grouped(side.stopped_by(StopReason::Throttled) as u64),
            false => "–".to_owned(),
        },
        "calls not retried, to avoid more overload",
    );
    line(
        "ended by the deadline",
        &|side| grouped(side.timeouts() as u64),
        &format!("calls without an answer after {limit} ms"),
    );
    if comparison.tower.is_some() {
        let note =
            "tower: its retry with a budget over a timeout of a quarter of that for each attempt";
        let _ = writeln!(out, "{}", style.dim(note));
    }
    out.push('\n');
}

fn phases(out: &mut String, comparison: &Comparison, style: Style) {
    let (without, with) = (&comparison.without, &comparison.with);
    let sides = comparison.sides();
    // With a third column there is room for one time.
    let times = match comparison.tower {
        Some(_) => vec![("with", with)],
        None => sides.clone(),
    };
    let (successes, latencies) = (8 * sides.len() + 1, 8 * times.len() + 1);
    let above = format!(
        "{:PHASE$}{:>5}{:>successes$}{:>latencies$}{:>6}",
        "", "", "success", "p99", "tries"
    );
    let mut head = format!("{:PHASE$}{:>5} ", "by phase", "calls");
    for (name, _) in &sides {
        let _ = write!(head, "{name:>8}");
    }
    head.push(' ');
    for (name, _) in &times {
        let _ = write!(head, "{name:>8}");
    }
    let _ = writeln!(
        out,
        "{}\n{}",
        style.dim(&above),
        style.dim(&format!("{head}{:>6}", "with"))
    );
    for phase in &comparison.phases {
        let range = (phase.from, phase.to);
        let success = |side: &Side| side.success(range.0, range.1);
        let name = comparison.protocol.phase(phase.weather);
        let _ = write!(out, "{name:PHASE$}{:>5} ", phase.len());
        for (_, side) in &sides {
            let shown = format!("{:>8}", tenths(success(side)));
            let better = std::ptr::eq(*side, with) && success(with) > success(without);
            out.push_str(&if better { style.good(&shown) } else { shown });
        }
        out.push(' ');
        for (_, side) in &times {
            let _ = write!(out, "{:>8}", short(side.percentile_of(range, 0.99)));
        }
        let _ = writeln!(
            out,
            "{:>6.2}  {}",
            with.attempts_per_call(range.0, range.1),
            style.dim(comparison.protocol.tells(phase.weather)),
        );
    }
    out.push('\n');
}

fn lists(out: &mut String, comparison: &Comparison, style: Style) {
    let reasons = comparison.with.reasons();
    list(out, "attempts failed for", &reasons, style);
    for (name, side) in comparison.sides() {
        let label = format!("callers saw, {name}");
        list(out, &label, &side.failures(), style);
    }
}

/// Names with counts, wrapped.
fn list(out: &mut String, label: &str, counts: &[(&str, u32)], style: Style) {
    let _ = write!(out, "{}", style.dim(&format!("{label:LABEL$}")));
    let mut column = LABEL;
    for (at, (name, count)) in counts.iter().enumerate() {
        let comma = if at + 1 < counts.len() { "," } else { "" };
        let item = format!("{name} {count}{comma}");
        let length = item.chars().count();
        if column + 1 + length > WIDTH && column > LABEL {
            let _ = write!(out, "\n{:LABEL$}", "");
            column = LABEL;
        }
        if column > LABEL {
            out.push(' ');
            column += 1;
        }
        out.push_str(&item);
        column += length;
    }
    if counts.is_empty() {
        out.push_str("successes only");
    }
    out.push('\n');
}

fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Omits the fraction where it is noise.
pub(crate) fn short(time: Option<Duration>) -> String {
    match time {
        Some(time) if time >= Duration::from_millis(100) => format!("{} ms", time.as_millis()),
        time => millis(time),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Formats with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            [7, 150, 1500, 1_234_567].map(grouped),
            ["7", "150", "1,500", "1,234,567"]
        );
    }

    #[test]
    fn the_heading_says_which_protocols_run_a_third_time() {
        let plan = Plan {
            seed: 1,
            calls: 1500,
            rate: 500,
            limit: Duration::from_millis(400),
        };
        let said = |chosen: &[Protocol]| heading(&plan, chosen, 63.0, Style { colour: false });
        let all = said(&Protocol::ALL);
        assert!(all.ends_with(" This takes about 63 seconds.\n\n"), "{all}");
        assert!(all.lines().all(|line| line.len() <= WIDTH), "{all}");
        let in_one_line = all.replace('\n', " ");
        let third = " The calls of gRPC and HTTP are also made with tower's own retry. ";
        assert!(in_one_line.contains(third), "{all}");
        assert!(!said(&[Protocol::Kv, Protocol::Mongodb]).contains("tower"));
    }

    #[test]
    fn lists_are_wrapped_within_the_width() {
        let names: Vec<_> = (0..20)
            .map(|count| ("A_LONG_NAME_OF_A_REASON", count))
            .collect();
        let mut out = String::new();
        list(&mut out, "label", &names, Style { colour: false });
        assert!(out.lines().count() > 4);
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH));
    }
}
