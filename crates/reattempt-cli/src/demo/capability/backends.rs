//! Backends with health: one of three accepts requests and never answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use reattempt::backends::RoundRobin;
use reattempt::backoff::Backoff;
use reattempt::health::HealthPolicy;
use reattempt::strategy::MaxAttempts;
use reattempt_http::HttpClientLayer;
use reattempt_testbed::http::{Script, SeenRequest, Server, Step};
use tower::Layer;

use super::super::DemoError;
use super::super::exchange::Through;
use super::super::http::HttpExchange;
use super::super::load::Target;
use super::super::stats::Side;
use super::super::table::percent;
use super::Scale;
use super::load::{send, to};
use super::sheet::{Seen, Sheet, latency, row, success};

pub(super) const RATE: u32 = 300;
/// Calls before one backend falls silent.
const BEFORE: usize = 150;
const ATTEMPT: Duration = Duration::from_millis(100);
/// A call that took longer met the silent backend.
const FELT: Duration = Duration::from_millis(90);

pub(super) const fn calls(scale: Scale) -> usize {
    BEFORE + if scale.quick { 300 } else { 1200 }
}

/// Three servers, of which the second can fall silent.
struct Servers {
    all: Vec<Server>,
    is_silent: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Servers {
    async fn start() -> Result<Self, DemoError> {
        let is_silent = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let mut all = Vec::new();
        for at in 0..3 {
            let (is_silent, asked) = (Arc::clone(&is_silent), Arc::clone(&asked));
            let handler = move |_: &SeenRequest| {
                if at == 1 && is_silent.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    return Step::hang();
                }
                Step::status(200).after(Duration::from_millis(2))
            };
            all.push(Server::start(Script::handler(handler)).await?);
        }
        Ok(Self {
            all,
            is_silent,
            asked,
        })
    }
}

async fn measure(
    scale: Scale,
    servers: &Servers,
    target: impl Target,
    progress: &ProgressBar,
) -> Result<Seen, DemoError> {
    send(&target, 0..BEFORE, RATE, progress).await?;
    servers.is_silent.store(true, Ordering::Relaxed);
    let records = send(&target, BEFORE..calls(scale), RATE, progress).await?;
    Ok(Seen {
        side: Side::new(records),
        requests: servers.asked.load(Ordering::Relaxed),
    })
}

pub(super) async fn run(scale: Scale, progress: &ProgressBar) -> Result<Sheet, DemoError> {
    let backoff = Backoff::constant(Duration::from_millis(1));
    let layer = HttpClientLayer::standard()
        .timeout(Duration::from_secs(1))
        .attempt_timeout(ATTEMPT)
        .no_throttle()
        .strategy(MaxAttempts::new(3, backoff));
    let connect = |server: &Server| (server.addr().to_string(), to(server.addr()));

    progress.set_message("backends, in turn");
    let servers = Servers::start().await?;
    let in_turn = RoundRobin::new(servers.all.iter().map(connect))?;
    let target = Through::new(layer.layer(in_turn), HttpExchange(servers.all[0].addr()));
    let without = measure(scale, &servers, target, progress).await?;

    progress.set_message("backends, with health");
    let servers = Servers::start().await?;
    let healthy = layer.backends(servers.all.iter().map(connect), HealthPolicy::standard());
    let target = Through::new(layer.layer(healthy), HttpExchange(servers.all[0].addr()));
    let with = measure(scale, &servers, target, progress).await?;
    Ok(sheet(&[without, with]))
}

fn sheet(sides: &[Seen; 2]) -> Sheet {
    let felt = |seen: &Seen| {
        let felt = seen.side.latencies.iter().filter(|took| **took > FELT);
        percent(felt.count() as f64 / seen.side.records.len().max(1) as f64)
    };
    let asked = |seen: &Seen| seen.requests.to_string();
    Sheet {
        name: "Backends with health",
        about: "one of three accepts requests and never answers; attempts of 100 ms",
        sides: vec!["in turn", "health"],
        rows: vec![
            success(sides),
            latency("latency p50", sides, 0.5, "half of the calls were faster"),
            latency(
                "latency p99",
                sides,
                0.99,
                "a call that meets it waits for 100 ms",
            ),
            row(
                "calls that felt it",
                sides,
                felt,
                "all since it fell silent",
            ),
            row("requests sent to it", sides, asked, "as it counted them"),
        ],
    }
}
