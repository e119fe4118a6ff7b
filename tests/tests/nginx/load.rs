//! Many callers while nginx closes kept-alive connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use reattempt::StopReason;
use reattempt_http::TransportFault;
use reattempt_tests::nginx::{Logged, Nginx};
use tokio::task::JoinSet;

use crate::client::{Client, Ended};
use reattempt_tests::within;

/// Half of them read, half of them write.
const CALLERS: usize = 12;

#[derive(Default)]
struct Load {
    over: AtomicBool,
    ended: AtomicUsize,
    /// Attempts beyond the first.
    again: AtomicUsize,
    /// Writes whose result is unknown, and calls whose response ended early.
    lost: AtomicUsize,
    /// The server version in each caller's last response.
    version: [AtomicUsize; CALLERS],
}

impl Load {
    /// Makes sequential calls, with pauses of up to a few milliseconds, until the load is over.
    async fn caller(self: Arc<Self>, number: usize, client: Client) {
        let method = if number % 2 == 0 {
            Method::GET
        } else {
            Method::POST
        };
        for turn in 0_u64.. {
            if self.over.load(Ordering::SeqCst) {
                break;
            }
            let name = format!("{method}-{number}-{turn}");
            let ended = client.call(method.clone(), "/", &name).await;
            self.note(number, &method, &ended);
            let pause = turn.wrapping_mul(797) % 12_000;
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
    }

    fn note(&self, number: usize, method: &Method, ended: &Ended) {
        let again = ended.info.attempts().saturating_sub(1) as usize;
        self.again.fetch_add(again, Ordering::SeqCst);
        match &ended.outcome {
            Ok((status, headers)) => {
                assert_eq!(*status, 200);
                let version = headers.get("x-version").and_then(|v| v.to_str().ok());
                let version = version.map_or(0, |text| text.parse().expect("a number"));
                self.version[number].store(version, Ordering::SeqCst);
            }
            Err(error) => {
                // A response that ends early is returned to the caller, also of a read.
                if ended.info.stopped() != Some(StopReason::Success) {
                    assert_eq!(
                        method,
                        Method::POST,
                        "a read is sent until it is answered: {error}"
                    );
                    assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
                }
                let fault = TransportFault::of(&**error);
                let gone = [
                    TransportFault::ConnectionClosed,
                    TransportFault::ConnectionReset,
                ];
                assert!(gone.contains(&fault), "{fault:?}: {error}");
                self.lost.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    async fn until(&self, found: impl Fn(&Self) -> bool) {
        let found = async {
            while !found(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        within(found).await;
    }
}

/// Runs the load during `meanwhile`, and then checks that no write was processed twice.
async fn under_load(
    server: &Nginx,
    http2: bool,
    meanwhile: impl AsyncFnOnce(&Load),
) -> (Arc<Load>, Vec<Logged>) {
    let load = Arc::new(Load::default());
    let client = Client::hyper_util(server.uri(http2), http2);
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        callers.spawn(Arc::clone(&load).caller(number, client.clone()));
    }
    tokio::select! {
        () = meanwhile(&load) => {}
        Some(Err(panicked)) = callers.join_next() => panic!("{panicked}"),
    }
    load.over.store(true, Ordering::SeqCst);
    while let Some(ended) = within(callers.join_next()).await {
        ended.expect("no panic");
    }
    let log = server.log();
    let mut carried_out: HashMap<&str, usize> = HashMap::new();
    for (name, _) in log.iter().filter(|(_, status)| *status == 200) {
        *carried_out.entry(name).or_default() += 1;
    }
    for (name, times) in carried_out {
        assert!(
            times == 1 || name.starts_with("GET"),
            "{name}: {times} times"
        );
    }
    (load, log)
}

/// The server closes connections after a few milliseconds of idle time, when the next request may
/// already be in flight.
#[tokio::test]
async fn connections_closed_while_idle_lose_no_retryable_call() {
    for http2 in [false, true] {
        let lines = "keepalive_timeout 6ms; location / { return 200 hello; }";
        let Some(server) = Nginx::start(lines).await else {
            return;
        };
        let (load, log) = under_load(&server, http2, async |load| {
            load.until(|load| load.ended.load(Ordering::SeqCst) > 1500)
                .await;
        })
        .await;
        let lost = load.lost.load(Ordering::SeqCst);
        let ended = load.ended.load(Ordering::SeqCst);
        assert!(
            lost * 4 < ended,
            "most writes get through: {lost} of {ended} lost"
        );
        assert!(log.iter().all(|(_, status)| *status == 200));
    }
}

/// After every few requests; with HTTP/2, while others are in progress.
#[tokio::test]
async fn connections_closed_after_a_few_requests_cost_nothing() {
    for http2 in [false, true] {
        let lines = "keepalive_requests 5; location / { return 200 hello; }";
        let Some(server) = Nginx::start(lines).await else {
            return;
        };
        let (load, _) = under_load(&server, http2, async |load| {
            load.until(|load| load.ended.load(Ordering::SeqCst) > 1500)
                .await;
        })
        .await;
        let lost = load.lost.load(Ordering::SeqCst);
        assert_eq!(lost, 0, "the server announced each close");
    }
}

#[tokio::test]
async fn a_reload_under_load_loses_no_retryable_call() {
    let version =
        |n: usize| format!("location / {{ add_header X-Version {n}; return 200 hello; }}");
    for http2 in [false, true] {
        let Some(server) = Nginx::start(&version(1)).await else {
            return;
        };
        let (load, _) = under_load(&server, http2, async |load| {
            let arrived = |load: &Load, n| {
                let mut callers = load.version.iter();
                callers.all(|seen| seen.load(Ordering::SeqCst) == n)
            };
            load.until(|load| arrived(load, 1)).await;
            for n in 2..6 {
                server.reload(&version(n));
                load.until(|load| arrived(load, n)).await;
            }
        })
        .await;
        let (lost, ended) = (
            load.lost.load(Ordering::SeqCst),
            load.ended.load(Ordering::SeqCst),
        );
        assert!(
            lost * 4 < ended,
            "most writes get through: {lost} of {ended} lost"
        );
    }
}
