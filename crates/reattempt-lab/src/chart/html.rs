//! One page with the pictures and tables of several scenarios.

use std::fmt::Write;

use super::{escape, svg, table};
use crate::report::Report;

/// The page: no scripts, no resources from outside.
#[must_use]
pub fn page(reports: &[(String, Report)]) -> String {
    let mut out = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>reattempt lab</title>\n<style>body{font:16px/1.5 system-ui,sans-serif;max-width:64em;\
         margin:2em auto;padding:0 1em}pre{overflow-x:auto;font-size:13px}svg{max-width:100%}</style>\n\
         </head>\n<body>\n<h1>reattempt lab</h1>\n",
    );
    for (name, report) in reports {
        let _ = writeln!(
            out,
            "<section>\n<h2>{}</h2>\n{}<pre>{}</pre>\n</section>",
            escape(name),
            svg(name, report),
            table(report)
                .lines()
                .map(escape)
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    out.push_str("</body>\n</html>\n");
    out
}
