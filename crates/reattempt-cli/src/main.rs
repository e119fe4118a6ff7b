//! The program `reattempt`: makes calls over four protocols with retries and hedging, and checks
//! the documents that configure them.

mod call;
mod check;
mod demo;
mod input;
mod lab;
mod printable;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Makes calls with retries and reasons, hedging, throttling, pushback and deadlines.
#[derive(Debug, Parser)]
#[command(name = "reattempt", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
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
        .with_env_filter(
            EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| EnvFilter::new("warn,reattempt::call=off")),
        )
        .with_writer(std::io::stderr)
        .init();
    match Arguments::parse().command {
        Command::Call(arguments) => call::run(*arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Demo(arguments) => demo::start(arguments),
        Command::Lab(arguments) => lab::run(&arguments),
    }
}
