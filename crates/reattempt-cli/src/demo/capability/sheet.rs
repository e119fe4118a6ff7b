//! The table of one capability.

use super::super::stats::Side;
use super::super::style::{Style, millis};
use super::super::table::{self, percent};

/// What callers felt, and how many requests the server counted.
pub(super) struct Seen {
    pub(super) side: Side,
    pub(super) requests: usize,
}

impl Seen {
    /// Requests per call.
    pub(super) fn per_call(&self) -> f64 {
        self.requests as f64 / self.side.records.len().max(1) as f64
    }
}

/// Label, the figure of each side, and what it means.
type Row = (&'static str, Vec<String>, &'static str);

/// A row with this figure of each side.
pub(super) fn row(
    label: &'static str,
    sides: &[Seen],
    figure: impl Fn(&Seen) -> String,
    tells: &'static str,
) -> Row {
    (label, sides.iter().map(figure).collect(), tells)
}

/// The share of calls that succeeded.
pub(super) fn success(sides: &[Seen]) -> Row {
    let figure = |seen: &Seen| percent(seen.side.total_success());
    row("success", sides, figure, "calls that got their answer")
}

/// This percentile of the latencies of calls that succeeded.
pub(super) fn latency(label: &'static str, sides: &[Seen], share: f64, tells: &'static str) -> Row {
    let figure = |seen: &Seen| millis(seen.side.percentile(share));
    row(label, sides, figure, tells)
}

/// A column for each side, and a row for each figure.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(super) sides: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
}

impl Sheet {
    pub(crate) fn draw(&self, style: Style) -> String {
        let mut out = String::new();
        table::title(&mut out, self.name, self.about, style);
        out.push_str(&self.figures(style));
        out.push('\n');
        out
    }

    /// Without the title.
    pub(crate) fn figures(&self, style: Style) -> String {
        let mut out = String::new();
        table::columns(&mut out, self.sides.iter().copied(), style);
        for (label, figures, tells) in &self.rows {
            table::row(&mut out, label, figures.iter().cloned(), tells, style);
        }
        out
    }
}
