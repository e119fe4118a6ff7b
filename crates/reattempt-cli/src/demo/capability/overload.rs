//! The governor and admission: a server is offered four times what it can serve.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use reattempt::Governor;
use reattempt::admission::Admission;
use reattempt::backoff::Backoff;
use reattempt::strategy::{MaxAttempts, NeverRetry};
use reattempt_http::HttpClientLayer;
use reattempt_testbed::http::{Script, SeenRequest, Server, Step};
use tokio::time::Instant;
use tower::Layer;

use super::super::DemoError;
use super::super::exchange::Through;
use super::super::http::HttpExchange;
use super::super::stats::Side;
use super::Scale;
use super::load::{send, to};
use super::sheet::{Seen, Sheet, latency, row};

/// No retries, retries without a throttle, with the governor, and with admission above it.
pub(super) const SIDES: usize = 4;

/// What one answer costs the server, which has one worker.
const WORK: Duration = Duration::from_millis(10);
/// What a refusal costs it.
const REFUSAL: Duration = Duration::from_millis(1);
/// It refuses what would wait for longer.
const QUEUE: Duration = Duration::from_millis(100);
/// Requests a second that it can serve.
const CAPACITY: u32 = 100;
pub(super) const OFFERED: u32 = 4 * CAPACITY;

pub(super) const fn calls(scale: Scale) -> usize {
    OFFERED as usize * if scale.quick { 1 } else { 3 }
}

/// The server's one worker: until when it has work.
struct Worker(Mutex<Instant>);

impl Worker {
    fn take(&self) -> Step {
        let mut busy_until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let start = (*busy_until).max(now);
        let wait = start - now;
        if wait > QUEUE {
            *busy_until = start + REFUSAL;
            return Step::status(503);
        }
        *busy_until = start + WORK;
        Step::status(200).after(wait + WORK)
    }
}

async fn measure(
    scale: Scale,
    layer: HttpClientLayer,
    progress: &ProgressBar,
) -> Result<Seen, DemoError> {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let worker = Worker(Mutex::new(Instant::now()));
    let handler = move |_: &SeenRequest| {
        counter.fetch_add(1, Ordering::Relaxed);
        worker.take()
    };
    let server = Server::start(Script::handler(handler)).await?;
    let stack = layer
        .timeout(Duration::from_secs(1))
        .layer(to(server.addr()));
    let target = Through::new(stack, HttpExchange(server.addr()));
    let records = send(&target, 0..calls(scale), OFFERED, progress).await?;
    Ok(Seen {
        side: Side::new(records),
        requests: requests.load(Ordering::Relaxed),
    })
}

pub(super) async fn run(scale: Scale, progress: &ProgressBar) -> Result<Sheet, DemoError> {
    let backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_millis(200));
    let retries = || HttpClientLayer::standard().strategy(MaxAttempts::new(4, backoff.clone()));
    let governor = || retries().throttle(Arc::new(Governor::default()));
    let sides = [
        HttpClientLayer::standard().strategy(NeverRetry),
        retries().no_throttle(),
        governor(),
        governor().admission(Arc::new(Admission::default())),
    ];
    let mut seen = Vec::with_capacity(SIDES);
    for (layer, name) in sides.into_iter().zip(NAMES) {
        progress.set_message(format!("overload, {name}"));
        seen.push(measure(scale, layer, progress).await?);
    }
    Ok(sheet(scale, &seen))
}

const NAMES: [&str; SIDES] = ["no retry", "retries", "governor", "admission"];

fn sheet(scale: Scale, sides: &[Seen]) -> Sheet {
    let seconds = calls(scale) as f64 / f64::from(OFFERED);
    let of_capacity = move |number: usize| {
        let share = number as f64 / seconds / f64::from(CAPACITY);
        format!("{share:.2} x")
    };
    let arrived = |seen: &Seen| of_capacity(seen.requests);
    let answered = |seen: &Seen| of_capacity(seen.side.latencies.len());
    let per_call = |seen: &Seen| format!("{:.2}", seen.per_call());
    Sheet {
        name: "Overload",
        about: "one server is offered four times what it can serve, refuses the rest",
        sides: NAMES.to_vec(),
        rows: vec![
            row("requests arrived", sides, arrived, "of what it can serve"),
            row("calls answered", sides, answered, "refusals cost work too"),
            row(
                "attempts per call",
                sides,
                per_call,
                "below 1: not sent at all",
            ),
            latency("latency p99", sides, 0.99, "of calls that were answered"),
        ],
    }
}
