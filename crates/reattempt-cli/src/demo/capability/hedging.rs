//! Hedging that learns: a server of which 5 % of the answers are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use reattempt_http::{HttpClientLayer, HttpPolicies};
use reattempt_testbed::http::{Script, SeenRequest, Server, Step};
use tower::Layer;

use super::super::DemoError;
use super::super::exchange::Through;
use super::super::http::HttpExchange;
use super::super::stats::Side;
use super::super::trouble::roll;
use super::Scale;
use super::load::{send, to};
use super::sheet::{Seen, Sheet, latency, row, success};

pub(super) const RATE: u32 = 1000;
/// Calls before anything is counted: connections are opened, and the delay learns.
const BEFORE: usize = 2000;
const SLOW: Duration = Duration::from_millis(150);

/// Extra attempts of a hundred calls that the client may send: just as many as there are slow ones.
const POLICY: &str = r#"{"default": {"hedge": {"maxAttempts": 2, "extraLoadPercent": 5}}}"#;
const PLAIN: &str = r#"{"default": {}}"#;

pub(super) const fn calls(scale: Scale) -> usize {
    BEFORE + if scale.quick { 300 } else { 1500 }
}

async fn measure(scale: Scale, policy: &str, progress: &ProgressBar) -> Result<Seen, DemoError> {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let handler = move |_: &SeenRequest| {
        // Each attempt by itself: a hedge seldom meets a slow answer too.
        let number = counter.fetch_add(1, Ordering::Relaxed);
        let usual = Duration::from_millis(2 + roll(scale.seed, number, 1) % 8);
        let is_slow = roll(scale.seed, number, 2) % 100 < 5;
        let took = if is_slow { SLOW } else { usual };
        Step::status(200).after(took)
    };
    let server = Server::start(Script::handler(handler)).await?;
    let table = HttpPolicies::parse(policy)?;
    let layer = HttpClientLayer::standard()
        .timeout(Duration::from_secs(2))
        .route(table.policies);
    let stack = layer.layer(to(server.addr()));
    let target = Through::new(stack, HttpExchange(server.addr()));
    send(&target, 0..BEFORE, RATE, progress).await?;
    let before = requests.load(Ordering::Relaxed);
    let records = send(&target, BEFORE..calls(scale), RATE, progress).await?;
    Ok(Seen {
        side: Side::new(records),
        requests: requests.load(Ordering::Relaxed) - before,
    })
}

pub(super) async fn run(scale: Scale, progress: &ProgressBar) -> Result<Sheet, DemoError> {
    progress.set_message("hedging, without");
    let without = measure(scale, PLAIN, progress).await?;
    progress.set_message("hedging, with");
    let with = measure(scale, POLICY, progress).await?;
    Ok(sheet(&[without, with]))
}

fn sheet(sides: &[Seen; 2]) -> Sheet {
    let per_call = |seen: &Seen| format!("{:.3}", seen.per_call());
    Sheet {
        name: "Hedging that learns",
        about: "one server, 5 % of its answers take 150 ms; extraLoadPercent: 5",
        sides: vec!["without", "with"],
        rows: vec![
            success(sides),
            latency("latency p50", sides, 0.5, "half of the calls were faster"),
            latency("latency p95", sides, 0.95, "where the slow answers begin"),
            latency(
                "latency p99",
                sides,
                0.99,
                "a second attempt overtakes a slow first one",
            ),
            row(
                "requests per call",
                sides,
                per_call,
                "as the server counted them",
            ),
        ],
    }
}
