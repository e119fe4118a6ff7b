//! The program `reattempt`: makes calls over four protocols with retries and hedging, and checks
//! the documents that configure them.

mod call;
mod check;
mod demo;
mod input;
mod lab;
mod printable;

use std::env::{self, VarError};
use std::fmt::Display;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use printable::{OneLine, complain};

/// Makes calls with retries and reasons, hedging, throttling, pushback and deadlines.
#[derive(Debug, Parser)]
#[command(name = "reattempt", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The library's log of calls that failed is off, because the waterfall shows them, and so is that
/// of health, of which the demo has a table.
const LOG: &str = "warn,reattempt::health=off,reattempt::call=off";

/// What is logged: as `RUST_LOG` says, if it can be used.
fn filter() -> EnvFilter {
    let default = || EnvFilter::new(LOG);
    let unusable = |problem: &dyn Display| {
        let (name, problem) = (EnvFilter::DEFAULT_ENV, OneLine(problem));
        complain!("reattempt: {name} is ignored: {problem}");
        default()
    };
    match env::var(EnvFilter::DEFAULT_ENV) {
        Ok(said) => EnvFilter::try_new(said).unwrap_or_else(|error| unusable(&error)),
        Err(VarError::NotPresent) => default(),
        Err(VarError::NotUnicode(_)) => unusable(&"it is not Unicode"),
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(Box<call::Arguments>),
    Check(check::Arguments),
    /// Shows what the layers do, without any setup: the same load without and with them
    Demo(demo::DemoArgs),
    /// Shows what policies do on a bad day: in virtual time, against overloaded and failing servers
    Lab(lab::Arguments),
}

fn main() -> ExitCode {
    // Standard output is reserved for answers.
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_writer(std::io::stderr)
        // It would complain of a line that cannot be written, by a panic.
        .log_internal_errors(false)
        .init();
    match Arguments::parse().command {
        Command::Call(arguments) => call::run(*arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Demo(arguments) => demo::start(arguments),
        Command::Lab(arguments) => lab::run(&arguments),
    }
}
