//! A picture: success, load and latency of each policy, second by second.

use std::fmt::Write;

use super::{escape, short};
use crate::report::{Report, Second};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 56.0;
const PLOT: f64 = 120.0;
const GAP: f64 = 34.0;
/// Room for the title and the name of the first plot.
const TOP: f64 = 46.0;
/// Distinguishable also without colour vision (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555",
];
/// Policies of one colour differ in these: seven solid lines come first, then seven of each
/// pattern. From the 29th policy on the looks repeat.
const DASHES: [&str; 3] = ["6 2", "2 2", "6 2 2 2"];
/// More points than this are drawn as their means.
const MOST_POINTS: usize = 240;

type Value = fn(&Second) -> Option<f64>;

/// The picture as a document of its own.
#[must_use]
pub fn svg(title: &str, report: &Report) -> String {
    let policies = report.policies.len();
    let height = TOP + 3.0 * (PLOT + GAP) + 18.0 * policies as f64 + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"19\" font-size=\"15\" font-weight=\"600\">{}</text>\n",
        escape(&short(title, 90))
    );
    let plots: [(&str, Value, Option<f64>); 3] = [
        (
            "success, %",
            |second| second.success.map(|share| share * 100.0),
            Some(100.0),
        ),
        (
            "attempts per call",
            |second| (second.calls > 0).then(|| second.attempts as f64 / second.calls as f64),
            None,
        ),
        ("99th percentile, ms", |second| second.p99_ms, None),
    ];
    for (at, (name, value, top)) in plots.into_iter().enumerate() {
        let y = TOP + at as f64 * (PLOT + GAP);
        plot(&mut out, report, y, name, value, top);
    }
    for (at, (name, outcome)) in report.policies.iter().enumerate() {
        let y = TOP + 3.0 * (PLOT + GAP) + 18.0 * at as f64;
        let figures = match outcome.calls {
            0 => "no calls".to_owned(),
            _ => format!(
                "{:.2} % success, {:.2} attempts per call",
                outcome.success * 100.0,
                outcome.amplification
            ),
        };
        let _ = writeln!(
            out,
            "{}<text x=\"{}\" y=\"{}\">{}: {figures}</text>",
            key(at, y),
            LEFT + 20.0,
            y + 6.0,
            escape(&short(name, 60)),
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The attributes of the line of the policy at this place.
fn stroke(at: usize) -> String {
    let colour = COLOURS[at % COLOURS.len()];
    match at / COLOURS.len() % (DASHES.len() + 1) {
        0 => format!("stroke=\"{colour}\""),
        nth => {
            let dashes = DASHES[nth - 1];
            format!("stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"")
        }
    }
}

/// What shows the line of the policy at this place beside its name.
fn key(at: usize, y: f64) -> String {
    if at < COLOURS.len() {
        let colour = COLOURS[at];
        return format!(
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>"
        );
    }
    let (middle, stroke) = (y + 2.0, stroke(at));
    format!("<path d=\"M{LEFT} {middle}h14\" {stroke} stroke-width=\"4\"/>")
}

/// At most [`MOST_POINTS`] points, each the mean of some seconds; none where no second has a value.
fn points(rows: &[&Second], value: Value) -> Vec<Option<(f64, f64)>> {
    let size = rows.len().div_ceil(MOST_POINTS).max(1);
    let mean = |part: &[&Second]| {
        let values: Vec<f64> = part.iter().filter_map(|second| value(second)).collect();
        let second = part.first()?.second as f64;
        (!values.is_empty()).then(|| (second, values.iter().sum::<f64>() / values.len() as f64))
    };
    rows.chunks(size).map(mean).collect()
}

fn plot(out: &mut String, report: &Report, y: f64, name: &str, value: Value, top: Option<f64>) {
    let policies = report.policies.iter();
    let lines: Vec<Vec<Option<(f64, f64)>>> = policies
        .map(|(_, outcome)| {
            let rows = outcome.by_second.iter().filter(|second| second.calls > 0);
            points(&rows.collect::<Vec<_>>(), value)
        })
        .collect();
    let all = || lines.iter().flatten().flatten();
    let first = all().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let last = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let highest = all().map(|(_, value)| *value).fold(0.0, f64::max);
    let top = top.unwrap_or_else(|| round_up(highest));
    let bottom = y + PLOT;
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\">{name}</text>\
         <path d=\"M{LEFT} {y}V{bottom}H{}\" fill=\"none\" stroke=\"#999\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{top}</text>\
         <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\" fill=\"#555\">0</text>",
        y - 4.0,
        WIDTH - 10.0,
        LEFT - 5.0,
        y + 9.0,
        LEFT - 5.0,
    );
    if !first.is_finite() {
        return;
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\">{first} s</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{last} s</text>",
        bottom + 13.0,
        WIDTH - 10.0,
        bottom + 13.0,
    );
    let width = (last - first).max(1.0);
    for (at, line) in lines.iter().enumerate() {
        let mut path = String::new();
        // Seconds without a value are a gap, not a line across it.
        let mut go = "M";
        for point in line {
            let Some((second, value)) = point else {
                go = "M";
                continue;
            };
            let x = LEFT + (second - first) / width * (WIDTH - 10.0 - LEFT);
            let y = bottom - (value / top).min(1.0) * PLOT;
            let _ = write!(path, "{go}{x:.1} {y:.1}");
            go = "L";
        }
        if !path.is_empty() {
            let stroke = stroke(at);
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" {stroke} stroke-width=\"1.6\"/>"
            );
        }
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let mut step = 1.0;
    for _ in 0..40 {
        for factor in [1.0, 2.0, 5.0] {
            if value <= step * factor {
                return step * factor;
            }
        }
        step *= 10.0;
    }
    step
}
