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
mod named_values;
mod schedule;
mod story;
mod transport;
mod user_info;
pub(crate) mod waterfall;

use std::future::Future;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

pub(crate) use flags::Arguments;

use answer::Answer;
use document::{Concurrency, Document, Faults, Protocol};
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
        Err(Problem::Faults(faults)) => {
            // Exactly one line, also for errors with several.
            let line = faults.listed().replace('\n', " ");
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
    Faults(#[from] Faults),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn read(arguments: Arguments) -> Result<Document, Problem> {
    if !arguments.json {
        let fields = arguments.into_fields();
        let fields = fields.map_err(|fault| Faults::new("the command line", vec![fault]))?;
        return Ok(Document::of(fields)?);
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
    block_on(async move {
        let found = document.found();
        match document.protocol {
            Protocol::Grpc => run_plan(found.check(grpc::plan(document))?, output).await?,
            Protocol::Http => run_plan(found.check(http::plan(document))?, output).await?,
            Protocol::Kv => run_plan(found.check(kv::plan(document))?, output).await?,
            Protocol::Mongodb => {
                run_plan(found.check(mongodb::plan(document).await)?, output).await?;
            }
        }
        Ok(())
    })?
}

/// Runs this on a runtime of its own. What it spawned is left behind: tasks that keep a thread busy
/// and name look-ups that hang do not hold up its result.
fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(output)
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_a_call_left_behind_does_not_hold_up_its_result() {
        let (release, until_released) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        let stays = move || {
            let _ = until_released.recv_timeout(std::time::Duration::from_secs(10));
            let _ = end.send(());
        };
        let (begin, begun) = tokio::sync::oneshot::channel();
        let result = block_on(async move {
            tokio::task::spawn_blocking(move || {
                let _ = begin.send(());
                stays();
            });
            begun.await
        });
        assert_eq!(result.unwrap(), Ok(()));
        assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(release);
    }
}
