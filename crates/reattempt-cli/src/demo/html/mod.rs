//! The results as one page: no scripts, no external resources, readable in light and dark.

mod charts;
mod plot;

use std::fmt::Write;

use reattempt::StopReason;

use super::capability::Sheet;
use super::comparison::Comparison;
use super::load::Plan;
use super::stats::Side;
use super::style::{Style, millis};
use super::table::{grouped, percent, short};
use super::waterfall::{call_by_attempt, interesting};

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(crate) fn page(plan: &Plan, comparisons: &[Comparison], sheets: &[Sheet]) -> String {
    let mut out = String::new();
    let seed = plan.seed;
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>reattempt demo, seed {seed}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>reattempt demo</h1>",
    );
    if !comparisons.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"lead\">The same {calls} calls at {rate} a second for each protocol, once with the bare client \
             and a plain timeout of {limit} ms, once with the layers around the same client. Embedded servers, real sockets \
             on loopback, and one script of trouble (seed {seed}) for both sides.</p>\n\
             <p><span class=\"key without\"></span>without the stack<span class=\"key with\"></span>with the stack</p>",
            calls = grouped(plan.calls as u64),
            rate = plan.rate,
            limit = plan.limit.as_millis(),
        );
    }
    if !sheets.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"lead\">What the stack can do beside retries (seed {seed}): each on embedded HTTP servers of its \
             own, over real sockets on loopback, with a column for each client.</p>",
        );
    }
    out.push_str("<nav>");
    let protocols = comparisons.iter().map(|made| made.protocol.name());
    for name in protocols.chain(sheets.iter().map(|sheet| sheet.name)) {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", id(name), escape(name));
    }
    out.push_str("</nav>\n");
    for comparison in comparisons {
        section(&mut out, comparison);
    }
    for sheet in sheets {
        heading(&mut out, sheet.name, sheet.about);
        let figures = sheet.figures(Style { colour: false });
        let _ = writeln!(out, "<pre>{}</pre>\n</section>", escape(&figures));
    }
    out.push_str("<footer>Latencies are those of one machine under this load, and no benchmark.");
    if !comparisons.is_empty() {
        out.push_str(
            " During the overload every attempt fails on both sides: there no retry succeeds, and the throttle \
             stops the retries.",
        );
    }
    out.push_str("</footer>\n</body>\n</html>\n");
    out
}

/// The target of the link to a section.
fn id(name: &str) -> String {
    name.replace(' ', "-")
}

/// Begins a section.
fn heading(out: &mut String, name: &str, about: &str) {
    let _ = writeln!(
        out,
        "<section>\n<h2 id=\"{}\">{}<small>{}</small></h2>",
        id(name),
        escape(name),
        escape(about),
    );
}

fn section(out: &mut String, comparison: &Comparison) {
    let protocol = comparison.protocol;
    heading(out, protocol.name(), protocol.about());
    tiles(out, comparison);
    out.push_str("<div class=\"plots\">\n");
    for (title, tells, svg) in [
        (
            "Success over time",
            "Share of calls answered in time, by call number; the bands are the phases of the script.",
            charts::success(comparison),
        ),
        (
            "Time to an answer",
            "Share of all calls answered within a time. A line that ends below 100 % means calls without an answer.",
            charts::latency(comparison),
        ),
        (
            "Attempts per call",
            "The load on the servers. During the overload the throttle brings it back towards one.",
            charts::attempts(comparison),
        ),
        (
            "Why attempts failed",
            "Reasons of all failed attempts with the stack, including those that were retried.",
            charts::reasons(comparison),
        ),
    ] {
        let _ = writeln!(
            out,
            "<figure><h3>{title}</h3><figcaption>{tells}</figcaption>\n{svg}</figure>"
        );
    }
    out.push_str("</div>\n");
    phases(out, comparison);
    out.push_str("<h3>Some calls, attempt by attempt</h3>\n<pre>");
    let plain = Style { colour: false };
    for (call, shows) in interesting(comparison) {
        let _ = writeln!(out, "{}", escape(&call_by_attempt(call, shows, plain)));
    }
    out.push_str("</pre>\n</section>\n");
}

fn tiles(out: &mut String, comparison: &Comparison) {
    let (without, with) = (&comparison.without, &comparison.with);
    let success = |side: &Side| percent(side.total_success());
    let latency = |share| [without, with].map(|side| millis(side.percentile(share)));
    let per_call = |side: &Side| format!("{:.2}", side.attempts_per_call(0, side.records.len()));
    let held = grouped(with.stopped_by(StopReason::Throttled) as u64);
    let timeouts = |side: &Side| grouped(side.timeouts() as u64);
    let tiles = [
        ("success", [without, with].map(success)),
        ("p50 of successes", latency(0.5)),
        ("p99", latency(0.99)),
        ("p99.9", latency(0.999)),
        ("attempts per call", [without, with].map(per_call)),
        ("held by the throttle", ["–".to_owned(), held]),
        ("hit the deadline", [without, with].map(timeouts)),
    ];
    out.push_str("<div class=\"tiles\">\n");
    for (label, [without, with]) in tiles {
        let _ = writeln!(
            out,
            "<div class=\"tile\"><span>{label}</span><b>{with}</b><i>{without} without</i></div>"
        );
    }
    out.push_str("</div>\n");
}

fn phases(out: &mut String, comparison: &Comparison) {
    out.push_str(
        "<div class=\"wide\"><table><thead><tr><th>phase</th><th>calls</th><th>success without</th><th>with</th>\
         <th>p99 without</th><th>with</th><th>attempts per call</th><th>what happens</th></tr></thead><tbody>\n",
    );
    for phase in &comparison.phases {
        let without = comparison.without.success(phase.from, phase.to);
        let with = comparison.with.success(phase.from, phase.to);
        let p99 = |side: &Side| short(side.percentile_of((phase.from, phase.to), 0.99));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td{}>{}</td><td>{}</td><td>{}</td>\
             <td>{:.2}</td><td>{}</td></tr>",
            comparison.protocol.phase(phase.weather),
            phase.len(),
            percent(without),
            if with > without {
                " class=\"better\""
            } else {
                ""
            },
            percent(with),
            p99(&comparison.without),
            p99(&comparison.with),
            comparison.with.attempts_per_call(phase.from, phase.to),
            escape(comparison.protocol.tells(phase.weather)),
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Escapes text for the page.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escape("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
