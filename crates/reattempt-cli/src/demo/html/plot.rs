//! A plot as SVG: a frame with axes, and lines in it.

use std::fmt::Write;

use super::escape;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 32.0;
const BOTTOM: f64 = 26.0;

/// A plot under construction. Positions in it are fractions of its two axes, from the lower left
/// corner.
#[derive(Debug)]
pub(super) struct Plot {
    height: f64,
    title: &'static str,
    body: String,
}

impl Plot {
    pub(super) fn new(title: &'static str, height: f64) -> Self {
        Self {
            height,
            title,
            body: String::new(),
        }
    }

    fn x(at: f64) -> f64 {
        LEFT + at.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, at: f64) -> f64 {
        self.height - BOTTOM - at.clamp(0.0, 1.0) * (self.height - BOTTOM - TOP)
    }

    /// A horizontal line, with its label on the left.
    pub(super) fn across(&mut self, at: f64, label: &str) {
        let (y, left, right) = (self.y(at), LEFT, WIDTH - RIGHT);
        let _ = writeln!(
            self.body,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            escape(label),
        );
    }

    /// A label below the plot.
    pub(super) fn below(&mut self, at: f64, label: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            Self::x(at),
            self.height - 8.0,
            escape(label),
        );
    }

    /// A range with its name above it, in the upper row if `high`; every second range is shaded.
    /// `full` is the tooltip.
    pub(super) fn band(
        &mut self,
        (from, to): (f64, f64),
        (shaded, high): (bool, bool),
        label: &str,
        full: &str,
    ) {
        let (left, right) = (Self::x(from), Self::x(to));
        let (top, bottom) = (self.y(1.0), self.y(0.0));
        let fill = if shaded {
            "class=\"band\""
        } else {
            "fill=\"transparent\""
        };
        let _ = writeln!(
            self.body,
            "<rect {fill} x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            right - left,
            bottom - top,
            escape(full),
            (left + right) / 2.0,
            if high { top - 19.0 } else { top - 6.0 },
            escape(label),
        );
    }

    /// A line through these positions; its class gives the colour.
    pub(super) fn line(&mut self, class: &str, places: impl IntoIterator<Item = (f64, f64)>) {
        let mut points = String::new();
        for (x, y) in places {
            let _ = write!(points, "{:.1},{:.1} ", Self::x(x), self.y(y));
        }
        let _ = writeln!(
            self.body,
            "<polyline class=\"line {class}\" points=\"{}\"/>",
            points.trim_end()
        );
    }

    pub(super) fn finish(self) -> String {
        svg(self.title, self.height, &self.body)
    }
}

/// Bars with a name on the left and a number behind each.
pub(super) fn bars(title: &'static str, rows: &[(&str, u32)]) -> String {
    const ROW: f64 = 24.0;
    const NAMES: f64 = 270.0;
    let most = rows.iter().map(|row| row.1).max().unwrap_or(1).max(1);
    let mut body = String::new();
    for (at, (name, count)) in rows.iter().enumerate() {
        let top = 6.0 + at as f64 * ROW;
        let length = f64::from(*count) / f64::from(most) * (WIDTH - NAMES - 60.0);
        let _ = writeln!(
            body,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{NAMES}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{count}</text>",
            NAMES - 8.0,
            top + 11.0,
            escape(name),
            length.max(2.0),
            NAMES + length.max(2.0) + 6.0,
            top + 11.0,
        );
    }
    svg(title, 12.0 + rows.len().max(1) as f64 * ROW, &body)
}

fn svg(title: &str, height: f64, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
        escape(title)
    )
}
