//! `reattempt call` over four HTTP/2 streams of Debian's nginx, which reloads meanwhile. Where it
//! is not installed the tests print a line and pass.

use std::collections::HashMap;

use reattempt_testbed::{grpc, http};
use reattempt_tests::nginx::{FOUR_STREAMS, Nginx};
use serde_json::{Value, json};

use super::{answers, document, each, with};

const READS: usize = 10_000;
const WRITES: usize = 2_500;
const CALLS: usize = 2_500;
const BODY: &str = "aGVsbG8=";

/// How many calls of one document are out at once, where four have a stream and the others wait.
const AT_ONCE: usize = 250;

/// The answers to this many calls. nginx reloads meanwhile.
async fn under_reloads(
    nginx: &Nginx,
    lines: &str,
    document: Value,
    count: usize,
    call: impl Fn(usize) -> Value,
) -> Vec<Value> {
    let calls: Vec<_> = (0..count)
        .map(|number| {
            let call = with(call(number), "call", json!(number.to_string()));
            with(call, "timeout_ms", json!(50_000))
        })
        .collect();
    let document = with(document, "concurrency", json!("parallel"));
    let calling = async {
        let mut ended = Vec::new();
        for calls in calls.chunks(AT_ONCE) {
            ended.extend(answers(with(document.clone(), "calls", json!(calls))).await);
        }
        ended
    };
    let ended = nginx.reload_during(lines, calling).await;
    assert_eq!(ended.len(), count);
    let again = ended.iter().filter(|answer| each(answer, "n").len() > 1);
    let again = again.count();
    let kinds = ended.iter().map(|answer| each(answer, "kind"));
    let most = kinds.map(|kinds| kinds.iter().filter(|kind| *kind == "retry").count());
    println!(
        "{count} calls, {again} sent again (up to {} times that count)",
        most.max().unwrap_or_default()
    );
    assert!(again > 0, "some were met by a GOAWAY");
    ended
}

/// By a policy that sends again what may be.
fn over_http(nginx: &Nginx) -> Value {
    let document = document("http", &nginx.uri(true), json!([]));
    let policy = json!({
        "default": {"throttle": "wide", "retry": {
            "maxAttempts": 10, "backoff": {"initial": "0.005s", "max": "0.05s"},
        }},
        "throttles": {"wide": {"maxTokens": 1000, "tokenRatio": 1}},
    });
    with(with(document, "version", json!(2)), "policy", policy)
}

#[tokio::test]
async fn ten_thousand_reads_while_nginx_reloads_lose_none() {
    let lines = format!("{FOUR_STREAMS} location / {{ return 200 hello; }}");
    let Some(nginx) = Nginx::start(&lines).await else {
        return;
    };
    let read = |_| json!({"method": "GET", "path": "/"});
    let answers = under_reloads(&nginx, &lines, over_http(&nginx), READS, read).await;
    let lost = answers.iter().find(|answer| answer["status"] != 200);
    assert_eq!(lost, None);
}

/// nginx has the whole body before it passes a request on, and passes it on once.
#[tokio::test]
async fn writes_while_nginx_reloads_are_done_at_most_once() {
    let options = http::Options::new().protocol(http::Protocol::Http1);
    let behind = http::Server::start_with(options, http::Step::status(200)).await;
    let behind = behind.unwrap();
    let lines = format!(
        "{FOUR_STREAMS} location / {{ proxy_pass {}; }}",
        behind.uri()
    );
    let Some(nginx) = Nginx::start(&lines).await else {
        return;
    };
    let write = |number| json!({"method": "POST", "path": format!("/{number}"), "body": BODY});
    let answers = under_reloads(&nginx, &lines, over_http(&nginx), WRITES, write).await;
    let mut done: HashMap<String, usize> = HashMap::new();
    for seen in behind.seen() {
        *done.entry(seen.path).or_default() += 1;
    }
    let mut lost = 0;
    for answer in &answers {
        let path = format!("/{}", answer["call"].as_str().unwrap());
        let times = done.get(&path).copied();
        let times = times.unwrap_or_default();
        if answer["status"] == 200 {
            assert_eq!(times, 1, "{answer}");
            continue;
        }
        lost += 1;
        let never_sent = each(answer, "stage").iter().all(|is| is == "dispatch");
        assert!(times <= usize::from(!never_sent), "{times} times: {answer}");
    }
    println!("{lost} writes lost");
    assert!(lost <= WRITES / 200, "most writes get through: {lost} lost");
}

#[tokio::test]
async fn grpc_calls_while_nginx_reloads_lose_none() {
    let behind = grpc::Server::start(grpc::Step::ok("")).await.unwrap();
    let lines = format!(
        "{FOUR_STREAMS} location / {{ grpc_pass grpc://{}; }}",
        behind.addr()
    );
    let Some(nginx) = Nginx::start(&lines).await else {
        return;
    };
    let target = nginx.uri(true).replace("http://", "");
    let config = json!({"methodConfig": [{"name": [{}], "retryPolicy": {
        "maxAttempts": 5, "initialBackoff": "0.005s", "maxBackoff": "0.05s",
        "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"],
    }}]});
    let document = with(
        document("grpc", &target, json!([])),
        "service_config",
        config,
    );
    let call = |_| json!({"method": "/shop.Cart/Add", "payloads": [BODY]});
    let answers = under_reloads(&nginx, &lines, document, CALLS, call).await;
    let lost = answers.iter().find(|answer| answer["code"] != 0);
    assert_eq!(lost, None);
}
