//! `reattempt call`: makes calls through the layers and reports the outcome of every attempt.

mod answer;
pub(crate) mod attempts;
mod couchbase_strategy;
mod document;
mod flags;
mod grpc;
mod http;
pub(crate) mod in_millis;
mod kv;
mod mongodb;
mod schedule;
mod story;
mod transport;
mod user_info;
pub(crate) mod waterfall;

use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

pub(crate) use flags::Arguments;

use answer::Answer;
use document::{Concurrency, Document, Fault, Protocol};
use schedule::{Caller, Plan};

use crate::printable::OneLine;

/// The write buffer: an answer may have megabytes.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

/// The exit status for an invalid document.
const UNUSABLE: u8 = 2;

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let output = if arguments.json {
        Output::Lines
    } else {
        Output::Waterfalls
    };
    let outcome = read(arguments).and_then(|document| carry_out(document, output));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Problem::Fault(fault)) => {
            // Exactly one line, also for errors with several.
            let line = fault.to_string().replace('\n', " ");
            eprintln!("reattempt call: {}", OneLine(line));
            ExitCode::from(UNUSABLE)
        }
        Err(Problem::Io(error)) => {
            eprintln!("reattempt call: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn read(arguments: Arguments) -> Result<Document, Problem> {
    if !arguments.json {
        let (value, texts) = arguments.into_document()?;
        return Ok(Document::with_texts(value, texts)?);
    }
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    Ok(Document::parse(&text)?)
}

/// How answers are written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// One JSON line per call.
    Lines,
    /// For people.
    Waterfalls,
}

impl Output {
    fn write(self, answer: &Answer) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(WRITTEN_AT_ONCE, io::stdout().lock());
        match self {
            Self::Lines => answer.write_line(&mut out)?,
            Self::Waterfalls => out.write_all(waterfall::draw(answer).as_bytes())?,
        }
        out.flush()
    }
}

fn carry_out(document: Document, output: Output) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        match document.protocol {
            Protocol::Grpc => run_plan(grpc::plan(document)?, output).await?,
            Protocol::Http => run_plan(http::plan(document)?, output).await?,
            Protocol::Kv => run_plan(kv::plan(document)?, output).await?,
            Protocol::Mongodb => run_plan(mongodb::plan(document).await?, output).await?,
        }
        Ok(())
    })
}

/// Makes the calls, writes each answer as it completes, then keeps the connections open for
/// `linger_ms`.
async fn run_plan<C: Caller>(plan: Plan<C>, output: Output) -> io::Result<()> {
    let linger = plan.linger;
    let caller = match plan.concurrency {
        Concurrency::Sequential => schedule::one_after_another(plan, |a| output.write(a)).await?,
        Concurrency::Parallel => schedule::at_once(plan, |a| output.write(a)).await?,
    };
    tokio::time::sleep(linger).await;
    drop(caller);
    Ok(())
}
