//! A backend with 5 % slow answers, on the wire: what a learned hedge delay gains, and the extra
//! load that the server counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt_http::{HttpClientLayer, HttpPolicies};
use reattempt_testbed::http::{Options, Script, Server, Step};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

/// The time after which a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOW: Duration = Duration::from_millis(400);
const CALLERS: u64 = 16;
/// Of each caller. The delay is learned from the first half of them.
const CALLS: u64 = 250;

/// One in twenty, without an order.
fn is_slow(request: u64) -> bool {
    let word = (request + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) % 20 == 0
}

async fn backend() -> Server {
    let requests = AtomicU64::new(0);
    let script = Script::handler(move |_| {
        let answer = Step::status(200).body("apples");
        if is_slow(requests.fetch_add(1, Ordering::Relaxed)) {
            answer.after(SLOW)
        } else {
            answer.after(Duration::from_millis(2))
        }
    });
    let options = Options::new().max_records(20_000);
    Server::start_with(options, script).await.expect("a server")
}

/// The latencies of the second half of the calls under this policy, in order, and the requests that
/// the server saw in that half for each call.
async fn run(policy: &str) -> (Vec<Duration>, f64) {
    let server = backend().await;
    let policies = HttpPolicies::parse(policy).expect("a policy").policies;
    let client = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http();
    let client = HttpClientLayer::standard().route(policies).layer(client);
    let mut times = Vec::new();
    let mut seen = 0;
    for _half in 0..2 {
        seen = server.seen_count();
        times.clear();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (client, uri) = (client.clone(), server.uri());
            callers.spawn(async move {
                let mut times = Vec::new();
                for _ in 0..CALLS / 2 {
                    let request = Request::get(&uri).body(Full::<Bytes>::default());
                    let began = Instant::now();
                    let answer = client.clone().oneshot(request.expect("a request")).await;
                    let answer = answer.expect("an answer").into_body();
                    answer.collect().await.expect("a body");
                    times.push(began.elapsed());
                }
                times
            });
        }
        for of_caller in callers.join_all().await {
            times.extend(of_caller);
        }
    }
    times.sort_unstable();
    let sent = (server.seen_count() - seen) as f64 / times.len() as f64;
    (times, sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_percent_slow_answers_hardly_reach_the_caller() {
    let both = async {
        let without = run(r#"{"default": {}}"#).await;
        let with = run(r#"{"default": {"hedge": {"extraLoadPercent": 8}}}"#).await;
        (without, with)
    };
    let ((without, alone), (with, sent)) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("it hangs");
    let slow = |times: &[Duration]| {
        let slow = times.iter().filter(|time| **time >= SLOW).count();
        slow as f64 / times.len() as f64
    };
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    println!(
        "p99 {:?} without, {:?} with; slow {:.4} and {:.4}; extra load {:.4}",
        p99(&without),
        p99(&with),
        slow(&without),
        slow(&with),
        sent - 1.0
    );
    assert_eq!(alone, 1.0);
    assert!(p99(&without) >= SLOW && slow(&without) > 0.03);
    // A call is slow if both of its attempts are: one in 400.
    assert!(slow(&with) < 0.01, "{}", slow(&with));
    assert!(p99(&with) < SLOW);
    assert!(sent > 1.02 && sent <= 1.08 + 0.015, "{sent}");
}
