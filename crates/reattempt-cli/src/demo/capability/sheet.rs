//! The table of one capability.

use std::fmt::Write;

use super::super::style::Style;
use super::super::table::{self, LABEL};

/// A column for each side, and a row for each figure.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) sides: Vec<&'static str>,
    /// Label, the figure of each side, and what it means.
    pub(super) rows: Vec<(&'static str, Vec<String>, &'static str)>,
}

impl Sheet {
    pub(super) fn draw(&self, style: Style) -> String {
        let mut out = String::new();
        table::title(&mut out, self.name, self.about, style);
        let mut head = format!("{:LABEL$}", "");
        for name in &self.sides {
            let _ = write!(head, "{name:>10}");
        }
        let _ = writeln!(out, "{}", style.dim(&head));
        for (label, figures, tells) in &self.rows {
            let _ = write!(out, "{label:LABEL$}");
            for (at, figure) in figures.iter().enumerate() {
                // Padded before styling: escape sequences have no width.
                let shown = format!("{figure:>10}");
                let is_last = at + 1 == figures.len();
                out.push_str(&if is_last { style.bold(&shown) } else { shown });
            }
            let _ = writeln!(out, "   {}", style.dim(tells));
        }
        out.push('\n');
        out
    }
}
