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
        let answer = Step::status(200);
        if is_slow(requests.fetch_add(1, Ordering::Relaxed)) {
            answer.body("slow").after(SLOW)
        } else {
            answer.body("fast").after(Duration::from_millis(2))
        }
    });
    let options = Options::new().max_records(20_000);
    Server::start_with(options, script).await.expect("a server")
}

/// The second half of the calls under one policy.
struct Measured {
    p99: Duration,
    /// The part of the calls that got a slow answer. Times do not say so: where the machine stalls,
    /// every call in flight takes long.
    slow: f64,
    /// The requests that the server saw for each call.
    sent: f64,
}

async fn run(policy: &str) -> Measured {
    let server = backend().await;
    let policies = HttpPolicies::parse(policy).expect("a policy").policies;
    let client = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http();
    let client = HttpClientLayer::standard().route(policies).layer(client);
    let mut answers = Vec::new();
    let mut seen = 0;
    for _half in 0..2 {
        seen = server.seen_count();
        answers.clear();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (client, uri) = (client.clone(), server.uri());
            callers.spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..CALLS / 2 {
                    let request = Request::get(&uri).body(Full::<Bytes>::default());
                    let began = Instant::now();
                    let answer = client.clone().oneshot(request.expect("a request")).await;
                    let answer = answer.expect("an answer").into_body();
                    let body = answer.collect().await.expect("a body").to_bytes();
                    answers.push((began.elapsed(), body == "slow"));
                }
                answers
            });
        }
        for of_caller in callers.join_all().await {
            answers.extend(of_caller);
        }
    }
    answers.sort_unstable();
    let calls = answers.len() as f64;
    Measured {
        p99: answers[answers.len() * 99 / 100].0,
        slow: answers.iter().filter(|(_, slow)| *slow).count() as f64 / calls,
        sent: (server.seen_count() - seen) as f64 / calls,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_percent_slow_answers_hardly_reach_the_caller() {
    let both = async {
        let without = run(r#"{"default": {}}"#).await;
        let with = run(r#"{"default": {"hedge": {"extraLoadPercent": 8}}}"#).await;
        (without, with)
    };
    let (without, with) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("it hangs");
    println!(
        "p99 {:?} without, {:?} with; slow {:.4} and {:.4}; extra load {:.4}",
        without.p99,
        with.p99,
        without.slow,
        with.slow,
        with.sent - 1.0
    );
    assert_eq!(without.sent, 1.0);
    assert!(without.p99 >= SLOW && without.slow > 0.03);
    // A call is slow if both of its attempts are, one in 400; or if its hedge is held back, because
    // a machine that stalls makes more calls wait than the extra load allows.
    assert!(with.slow < without.slow / 2.0, "{}", with.slow);
    assert!(
        with.sent > 1.02 && with.sent <= 1.08 + 0.015,
        "{}",
        with.sent
    );
}
