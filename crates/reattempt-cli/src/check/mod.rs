//! `reattempt check`: reports whether files can be used, and where they are wrong.

mod detect;
mod findings;
mod kinds;
mod report;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use kinds::Kind;
use report::Report;

/// Reports whether policy and configuration files can be used, and where they are wrong.
///
/// Example: reattempt check --strict policy.json config.json
///
/// Exit status: 0 if all can be used, 1 if one cannot (with --strict also if there is a warning or
/// a finding), 2 if the flags cannot be used.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of the files; without it the members of each say it: routes or default an HTTP
    /// policy, errors with version an error map, nodesExt or vBucketServerMap a cluster
    /// configuration, others a service config
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Writes one JSON line per file
    #[arg(long)]
    json: bool,
    /// Adds what the policy lab finds in a policy, with a reason and a counter-example
    #[arg(long)]
    lint: bool,
    /// Warnings and findings fail, too
    #[arg(long)]
    strict: bool,
    /// The files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let check = |kind: Kind, bytes: &[u8]| {
        let mut found = kind.check(bytes);
        if arguments.lint && found.faults.is_empty() {
            found.lint = Some(kind.lint(bytes));
        }
        found
    };
    let files = arguments.files.iter();
    let reports: Vec<Report> = files
        .map(|file| Report::of(file, arguments.kind, arguments.strict, check))
        .collect();
    match write(&reports, arguments.json) {
        // A reader that wants no more, as `head`, has the exit status all the same.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            crate::printable::complain!("reattempt check: {error}");
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    if reports.iter().all(Report::passes) {
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
