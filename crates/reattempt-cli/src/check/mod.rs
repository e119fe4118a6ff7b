//! `reattempt check`: reports whether files can be used, and where they are wrong.

mod kinds;
mod report;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use kinds::Kind;
use report::Report;

/// Reports whether each file can be used. Exit status 0: all can; 1: at least one cannot
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of the files
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// Writes one JSON line per file
    #[arg(long)]
    json: bool,
    /// Adds what the policy lab finds in a policy, with a reason and a counter-example
    #[arg(long)]
    lint: bool,
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let reports: Vec<Report> = arguments
        .files
        .iter()
        .map(|file| {
            Report::of(file, |bytes| {
                let mut found = arguments.kind.check(bytes);
                if arguments.lint && found.faults.is_empty() {
                    found.lint = Some(arguments.kind.lint(bytes));
                }
                found
            })
        })
        .collect();
    if let Err(error) = write(&reports, arguments.json) {
        eprintln!("reattempt check: {error}");
        return ExitCode::FAILURE;
    }
    if reports.iter().all(Report::is_usable) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn write(reports: &[Report], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for report in reports {
        if json {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        } else {
            write!(out, "{report}")?;
        }
    }
    out.flush()
}
