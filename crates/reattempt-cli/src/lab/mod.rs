//! `reattempt lab`: what a policy does on a bad day, in virtual time.

mod replay;
mod tune;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reattempt::config::{Fault, Faults};
use reattempt_lab::tune::Range;
use reattempt_lab::{Limits, Report, Scenario, chart, gallery};

use crate::printable::{Lines, OneLine, complain, say};

/// The longest document, in bytes.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Runs retry policies against simulated servers: the same code that makes calls, in virtual time
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Reads one scenario from standard input and writes its result to standard output, as JSON;
    /// with --replay the scenario is the recording
    #[arg(long, conflicts_with_all = ["files", "scenario", "svg", "html"])]
    json: bool,
    /// The scenario documents
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A scenario of the gallery; can be repeated
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Lists the gallery
    #[arg(long, exclusive = true)]
    list: bool,
    /// Writes a picture of the (last) scenario
    #[arg(long, value_name = "FILE", conflicts_with = "tune")]
    svg: Option<PathBuf>,
    /// Writes a page with all pictures and tables
    #[arg(long, value_name = "FILE", conflicts_with = "tune")]
    html: Option<PathBuf>,
    /// Replays a recording of calls, this file and its older parts FILE.1, FILE.2, …
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "scenario", "tune"])]
    replay: Option<PathBuf>,
    /// A policy for the replay, beside the recorded one; can be repeated
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Varies a knob of a policy within bounds and shows what success and speed cost, such as
    /// attempts=1..5; also backoff, hedge-delay (seconds), hedge-share (percent), throttle
    /// (tokens); can be repeated
    #[arg(long, value_name = "KNOB=FROM..TO", value_parser = Range::parse)]
    tune: Vec<Range>,
    /// The policy of the scenario whose knobs vary; the first one by default
    #[arg(long, value_name = "NAME")]
    tuned: Option<String>,
    /// Number of seeds of the search, 3 by default; results are means over them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// The seed, instead of the document's
    #[arg(long)]
    seed: Option<u64>,
    /// Ends a policy's run, with --tune the whole search, with a fault after this many events
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_events)]
    max_events: u64,
}

/// Why there is no result.
#[derive(Debug)]
enum Problem {
    /// The document or the arguments cannot be used.
    Faults(Vec<Fault>),
    /// The result cannot be written.
    Output(io::Error),
}

impl From<Vec<Fault>> for Problem {
    fn from(faults: Vec<Fault>) -> Self {
        Self::Faults(faults)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let done = if let Some(missing) = arguments.missing() {
        Err(vec![missing].into())
    } else if let Some(file) = &arguments.replay {
        replay::run(arguments, file)
    } else if arguments.list {
        list()
    } else if arguments.json {
        json(arguments)
    } else {
        people(arguments)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Problem::Output(error)) => {
            let error = OneLine(error);
            complain!("reattempt lab: cannot write the result: {error}");
            ExitCode::FAILURE
        }
        Err(Problem::Faults(faults)) => {
            for fault in faults {
                complain!("{}", OneLine(fault));
            }
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    /// The fault of a flag that has no effect without another one. `requires` of clap is not
    /// checked where the required flag conflicts with one that is given.
    fn missing(&self) -> Option<Fault> {
        let no_replay = self.replay.is_none();
        let no_tune = self.tune.is_empty();
        let (replay, tune) = ("needs --replay FILE", "needs --tune KNOB=FROM..TO");
        let flags = [
            ("--policy", !self.policy.is_empty() && no_replay, replay),
            ("--tuned", self.tuned.is_some() && no_tune, tune),
            ("--seeds", self.seeds.is_some() && no_tune, tune),
        ];
        let missing = flags.into_iter().find(|(_, is_missing, _)| *is_missing);
        missing.map(|(flag, _, what)| Fault::new(flag, what))
    }

    fn limits(&self) -> Limits {
        Limits {
            max_events: self.max_events,
        }
    }

    fn scenario(&self, document: &[u8]) -> Result<Scenario, Vec<Fault>> {
        let scenario = Scenario::parse(document).map_err(faults)?;
        Ok(match self.seed {
            Some(seed) => scenario.with_seed(seed),
            None => scenario,
        })
    }

    fn simulate(&self, scenario: &Scenario) -> Result<Report, Vec<Fault>> {
        scenario.run(&self.limits()).map_err(faults)
    }
}

/// Writes warnings to standard error, after the name of their file.
fn warn<'f>(name: Option<&str>, warnings: impl IntoIterator<Item = &'f Fault>) {
    let name = name.map_or(String::new(), |name| format!("{name}: "));
    for warning in warnings {
        complain!("{}", OneLine(format_args!("{name}warning: {warning}")));
    }
}

fn faults(refused: Faults) -> Vec<Fault> {
    refused.faults().to_vec()
}

fn list() -> Result<(), Problem> {
    for example in gallery::GALLERY {
        say!("{:17} {}", example.name, example.about)?;
    }
    Ok(())
}

fn json(arguments: &Arguments) -> Result<(), Problem> {
    let unusable = |error: io::Error| vec![Fault::new("$", error)];
    let document = document(io::stdin().lock()).map_err(unusable)?;
    let scenario = arguments.scenario(&document)?;
    warn(None, scenario.warnings());
    if !arguments.tune.is_empty() {
        let points = tune::search(arguments, &scenario)?;
        say!("{}", tune::json(&points))?;
        return Ok(());
    }
    let report = arguments.simulate(&scenario)?;
    say!("{}", report.to_json())?;
    Ok(())
}

fn people(arguments: &Arguments) -> Result<(), Problem> {
    let mut documents = Vec::new();
    for file in &arguments.files {
        let text = read(file).map_err(|error| vec![in_file(file, error)])?;
        documents.push((file.display().to_string(), text));
    }
    for name in &arguments.scenario {
        let Some(example) = gallery::find(name) else {
            let what = format!("{name} is not in the gallery: see --list");
            return Err(vec![Fault::new("--scenario", what)].into());
        };
        let title = format!("{}: {}", example.name, example.about);
        documents.push((title, example.document.as_bytes().to_vec()));
    }
    if documents.is_empty() {
        let what = "a FILE, --scenario NAME, --list or --json is needed";
        return Err(vec![Fault::new("reattempt lab", what)].into());
    }
    let mut reports = Vec::new();
    for (at, (name, document)) in documents.into_iter().enumerate() {
        let in_document = |faults: Vec<Fault>| {
            let named = |fault: Fault| Fault::new(format!("{name}: {}", fault.path), fault.what);
            faults.into_iter().map(named).collect::<Vec<_>>()
        };
        let scenario = arguments.scenario(&document).map_err(in_document)?;
        // The policies of the gallery are as they are meant to be.
        if at < arguments.files.len() {
            warn(Some(&name), scenario.warnings());
        }
        if !arguments.tune.is_empty() {
            let points = tune::search(arguments, &scenario).map_err(in_document)?;
            say!("{}\n\n{}", OneLine(&name), Lines(tune::table(&points)))?;
            continue;
        }
        let report = arguments.simulate(&scenario).map_err(in_document)?;
        say!("{}\n\n{}", OneLine(&name), Lines(chart::table(&report)))?;
        reports.push((name, report));
    }
    Ok(pictures(arguments, &reports)?)
}

fn pictures(arguments: &Arguments, reports: &[(String, Report)]) -> io::Result<()> {
    if let (Some(file), Some((name, report))) = (&arguments.svg, reports.last()) {
        save(file, &chart::svg(name, report))?;
    }
    if let Some(file) = &arguments.html {
        save(file, &chart::page(reports))?;
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    document(fs::File::open(file)?)
}

/// A document that is longer than it may be is refused here: of it only the beginning was read, so
/// that the parser would name another length.
fn document(from: impl Read) -> io::Result<Vec<u8>> {
    let text = at_most(from, LONGEST)?;
    if text.len() as u64 > LONGEST {
        let what = format!("must be at most {LONGEST} bytes long");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

/// One byte more than may be, so that more can be refused.
fn at_most(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn save(file: &Path, text: &str) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), in_file(file, error).to_string());
    fs::write(file, text).map_err(named)
}

fn in_file(file: &Path, error: io::Error) -> Fault {
    Fault::new(file.display().to_string(), error)
}
