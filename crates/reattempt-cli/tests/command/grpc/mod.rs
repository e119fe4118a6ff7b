//! `reattempt call` over gRPC: the rules of A6, observed on the wire.

mod buffer;
mod calls;
mod cancel;
mod config;
mod deadline;
mod hedging;
mod metadata;
mod pushback;
mod ready;
mod retry;
mod status;
mod streams;
mod throttle;
mod transparent;

use std::net::SocketAddr;
use std::time::Duration;

use reattempt_testbed::grpc::{SeenCall, Server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{document, each, ms, with};

const HELLO: &str = "aGVsbG8=";
const WORLD: &str = "d29ybGQ=";
const METHOD: &str = "/test.Echo/Call";

/// Tolerance for late events on a busy machine, in milliseconds.
const ROOM: f64 = 300.0;

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One call with these fields and the required ones.
fn call(mut fields: Value) -> Value {
    fields["method"] = METHOD.into();
    if fields["payloads"].is_null() {
        fields["payloads"] = json!([HELLO]);
    }
    fields
}

/// A document with these calls.
fn several(server: &Server, calls: impl IntoIterator<Item = Value>) -> Value {
    let calls = calls.into_iter().map(call).collect();
    document("grpc", &server.addr().to_string(), calls)
}

/// A document with one call.
fn one(server: &Server, fields: Value) -> Value {
    several(server, [fields])
}

/// A document with one call under a service config.
fn configured(server: &Server, config: Value, fields: Value) -> Value {
    with(one(server, fields), "service_config", config)
}

/// A `retryPolicy` for all methods.
fn policy(max_attempts: u32, backoff: &str, codes: Value) -> Value {
    json!({"methodConfig": [{"name": [{}], "retryPolicy": {
        "maxAttempts": max_attempts, "initialBackoff": backoff, "maxBackoff": backoff,
        "backoffMultiplier": 1, "retryableStatusCodes": codes,
    }}]})
}

/// Retries UNAVAILABLE within 20 ms.
fn retrying(max_attempts: u32) -> Value {
    policy(max_attempts, "0.02s", json!(["UNAVAILABLE"]))
}

/// Hedges; UNAVAILABLE is not fatal.
fn hedging(max_attempts: u32, delay: &str) -> Value {
    json!({"methodConfig": [{"name": [{"service": "test.Echo"}], "hedgingPolicy": {
        "maxAttempts": max_attempts, "hedgingDelay": delay, "nonFatalStatusCodes": ["UNAVAILABLE"],
    }}]})
}

fn throttled(mut config: Value, max_tokens: u32, token_ratio: f64) -> Value {
    config["retryThrottling"] = json!({"maxTokens": max_tokens, "tokenRatio": token_ratio});
    config
}

/// An address without a listener.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// `grpc-previous-rpc-attempts` of each call, in order of arrival.
fn previous(seen: &[SeenCall]) -> Vec<Option<u32>> {
    seen.iter().map(SeenCall::previous_attempts).collect()
}

/// The arrival time of each call, counted from the first, in milliseconds.
fn arrivals(seen: &[SeenCall]) -> Vec<f64> {
    let since = |call: &SeenCall| call.arrival - seen[0].arrival;
    seen.iter()
        .map(|call| since(call).as_secs_f64() * 1000.0)
        .collect()
}

/// Asserts that the attempts were sent at these times, in milliseconds, or a little later.
#[track_caller]
fn assert_started(answer: &Value, planned: &[f64]) {
    let starts: Vec<_> = each(answer, "start_ms").iter().map(ms).collect();
    assert_at(&starts, planned, 1.0);
}

/// Asserts that the calls arrived at these times after the first. The first may itself be late,
/// which makes the others appear early.
#[track_caller]
fn assert_arrived(server: &Server, planned: &[f64]) {
    assert_at(&arrivals(&server.seen()), planned, 100.0);
}

#[track_caller]
fn assert_at(times: &[f64], planned: &[f64], early: f64) {
    assert_eq!(times.len(), planned.len(), "{times:?}");
    for (time, at) in times.iter().zip(planned) {
        let range = at - early..at + ROOM;
        assert!(range.contains(time), "{times:?} are not at {planned:?}");
    }
}
