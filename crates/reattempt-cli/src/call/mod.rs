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
mod later_batches;
mod load;
mod mongodb;
mod named_values;
pub(crate) mod report;
mod schedule;
mod seed;
mod story;
mod transport;
mod user_info;
pub(crate) mod waterfall;

use std::future::Future;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use flags::Arguments;

use document::{Concurrency, Document, Fault, Faults, Protocol};
use grpc::Refused;
use load::Load;
use report::Report;
use schedule::{Caller, InFlight, Plan};
use tokio::time::Instant;

use crate::input;
use crate::printable::{OneLine, complain};

/// The exit status for an invalid document.
const UNUSABLE: u8 = 2;
/// The exit status after Ctrl-C, as of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let load = (!arguments.json).then(|| arguments.load());
    let files = arguments.files();
    let mut report = load.map_or(Report::Lines, |load| Report::for_people(load.is_many()));
    let outcome = read(arguments).and_then(|document| carry_out(document, load, &mut report));
    match outcome {
        Ok(()) if report.is_failure() => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(Problem::Faults(faults)) => {
            // Exactly one line, also for errors with several.
            let line = files.name_in(&faults).listed().replace('\n', " ");
            complain!("reattempt call: {}", OneLine(line));
            ExitCode::from(UNUSABLE)
        }
        Err(Problem::Interrupted) => {
            let counted = load.is_some_and(|load| load.is_many());
            let uncounted = ["", "; calls in flight are not counted"][usize::from(counted)];
            complain!("reattempt call: interrupted{uncounted}");
            ExitCode::from(INTERRUPTED)
        }
        Err(Problem::Io(error)) => {
            // A reader that wants no more, as `head`, is no problem to speak of.
            if !is_closed(&error) {
                complain!("reattempt call: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Faults(#[from] Faults),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("interrupted by Ctrl-C")]
    Interrupted,
}

fn read(arguments: Arguments) -> Result<Document, Problem> {
    if !arguments.json {
        let fields = arguments.into_fields();
        let fields = fields.map_err(|fault| Faults::new("the command line", vec![fault]))?;
        return Ok(Document::of(fields));
    }
    let text = input::read(Path::new("-")).map_err(|error| {
        let fault = Fault::new("standard input", error);
        Faults::new("the document", vec![fault])
    })?;
    Ok(Document::parse(&text))
}

fn carry_out(document: Document, load: Option<Load>, report: &mut Report) -> Result<(), Problem> {
    block_on(async move {
        let found = document.found();
        let Some(protocol) = document.protocol else {
            return Ok(found.check(None)?);
        };
        match protocol {
            Protocol::Grpc => {
                // Only programs read the answers of calls that were not made.
                let refused = load.map_or(Refused::PerCall, |_| Refused::AsFault);
                let plan = grpc::plan(document, refused);
                run_plan(found.check(plan)?, load, report).await
            }
            Protocol::Http => run_plan(found.check(http::plan(document))?, load, report).await,
            Protocol::Kv => run_plan(found.check(kv::plan(document))?, load, report).await,
            Protocol::Mongodb => {
                run_plan(found.check(mongodb::plan(document).await)?, load, report).await
            }
        }
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
/// `linger_ms`. Ctrl-C ends the calls of people: the attempts of those in flight are shown, and
/// what ended is summed up.
async fn run_plan<C: Caller>(
    plan: Plan<C>,
    load: Option<Load>,
    report: &mut Report,
) -> Result<(), Problem> {
    let linger = plan.linger;
    let began = Instant::now();
    let mut in_flight = InFlight::default();
    let mut left = plan.calls.len();
    let add = |answer: &_| {
        left = left.saturating_sub(1);
        match report.add(answer) {
            // Every call was carried out, although the reader has left before the last answer.
            Err(error) if load.is_none() && left == 0 && is_closed(&error) => Ok(()),
            added => added,
        }
    };
    let caller = match (load, plan.concurrency) {
        (Some(load), _) => {
            tokio::select! {
                // The signal first: while calls begin, they use up the task's budget in each poll.
                biased;
                Ok(()) = tokio::signal::ctrl_c() => {
                    for answer in in_flight.cut_short().await {
                        report.cut_short(&answer)?;
                    }
                    report.unanswered(in_flight.count());
                    report.end(began.elapsed())?;
                    in_flight.late.complain();
                    return Err(Problem::Interrupted);
                }
                caller = schedule::under_load(plan, load, load.most_in_flight(), &mut in_flight, add) => caller?,
            }
        }
        (None, Concurrency::Sequential) => schedule::one_after_another(plan, add).await?,
        (None, Concurrency::Parallel) => schedule::at_once(plan, add).await?,
    };
    report.end(began.elapsed())?;
    in_flight.late.complain();
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
