//! `reattempt demo`: the same load without and with the stack, through scripted failures, on
//! embedded servers over real sockets: for four protocols, and for what else the stack can do.

mod capability;
mod comparison;
mod exchange;
mod grpc;
mod html;
mod http;
mod kv;
mod load;
mod mongodb;
mod one_server;
mod policies;
mod protocol;
mod stats;
mod style;
mod table;
mod tower_stack;
mod trouble;
mod waterfall;
mod way;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use capability::{Capability, Scale};
use comparison::Comparison;
use load::Plan;
use protocol::Protocol;

/// Calls per side and protocol.
const CALLS: usize = 1500;
const QUICK_CALLS: usize = 150;
/// Calls per second.
const RATE: u32 = 500;
const LIMIT: Duration = Duration::from_millis(400);

/// Shows what the layers do: the same load without and with them, through scripted failures, on
/// embedded servers
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Determines which calls fail and how; the same seed repeats the demo
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only these protocols; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    protocol: Vec<Protocol>,
    /// Only these capabilities; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    capability: Vec<Capability>,
    /// Also writes the results, with plots for the protocols, as one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A tenth of the load, as a quick check
    #[arg(long)]
    quick: bool,
}

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("cannot run a server on 127.0.0.1: {0}; check for free ports and file descriptors")]
    Io(#[from] io::Error),
    #[error("cannot write the results: {0}")]
    Output(io::Error),
    #[error(transparent)]
    Backends(#[from] reattempt::backends::NoBackends),
    #[error("a call of the load broke off: {0}")]
    Call(#[from] tokio::task::JoinError),
    #[error("tower's retry cannot be built: {0}")]
    Tower(tower::BoxError),
    #[error(transparent)]
    Throttle(#[from] reattempt::throttle::InvalidTokenBucket),
    #[error(transparent)]
    ServiceConfig(#[from] reattempt::config::Faults),
    #[error("cannot write {path}: {error}; --html needs a file in an existing folder")]
    Html { path: String, error: io::Error },
}

/// Runs the demo in its own runtime.
pub(crate) fn start(args: DemoArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(DemoError::from)
        .and_then(|runtime| runtime.block_on(run(args)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that wants no more, as `head`.
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            crate::printable::complain!("reattempt demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the demo: tables go to standard output, progress to standard error if it is a terminal.
pub(crate) async fn run(args: DemoArgs) -> Result<(), DemoError> {
    let plan = Plan {
        seed: args.seed,
        calls: if args.quick { QUICK_CALLS } else { CALLS },
        rate: RATE,
        limit: LIMIT,
    };
    let mut chosen = Protocol::ALL.to_vec();
    let mut capabilities = Capability::ALL.to_vec();
    if !(args.protocol.is_empty() && args.capability.is_empty()) {
        chosen.retain(|protocol| args.protocol.contains(protocol));
        capabilities.retain(|capability| args.capability.contains(capability));
    }
    let scale = Scale {
        seed: args.seed,
        quick: args.quick,
    };
    let style = style::Style {
        colour: io::stdout().is_terminal(),
    };
    let runs: usize = chosen.iter().map(|protocol| protocol.runs()).sum();
    let others: usize = capabilities.iter().map(|one| one.calls(scale)).sum();
    let progress = progress(plan.calls * runs + others);
    if runs > 0 {
        let others: f64 = capabilities.iter().map(|one| one.seconds(scale)).sum();
        let seconds = plan.seconds() * runs as f64 + others;
        progress.suspend(|| print(&table::heading(&plan, &chosen, seconds, style)))?;
    }
    let mut comparisons = Vec::new();
    for protocol in chosen {
        let comparison = Comparison::make(protocol, &plan, &progress).await?;
        progress.suspend(|| print(&table::draw(&comparison, style)))?;
        comparisons.push(comparison);
    }
    let mut sheets = Vec::new();
    for capability in capabilities {
        let sheet = capability.show(scale, &progress).await?;
        progress.suspend(|| print(&sheet.draw(style)))?;
        sheets.push(sheet);
    }
    progress.finish_and_clear();
    if let Some(path) = args.html {
        let page = html::page(&plan, &comparisons, &sheets);
        std::fs::write(&path, page).map_err(|error| DemoError::Html {
            path: path.display().to_string(),
            error,
        })?;
        print(&format!(
            "The page with the results is in {}\n",
            path.display()
        ))?;
    }
    Ok(())
}

/// A progress bar on standard error; silent when that is not a terminal.
fn progress(calls: usize) -> ProgressBar {
    let bar = ProgressBar::new(calls as u64);
    let template = "{msg:<22} [{bar:44}] {pos}/{len} calls, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar
}

fn print(text: &str) -> Result<(), DemoError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(DemoError::Output)
}
