//! Wait for Ready: a call without a connection waits for one.

use std::net::SocketAddr;

use reattempt_testbed::grpc::{Options, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, document, each, ms};

/// Starts a server late enough that the program is already running, even on a busy machine.
async fn later(address: SocketAddr) -> Server {
    tokio::time::sleep(millis(2_000)).await;
    Server::start_with(Options::new().at(address), Step::ok("world"))
        .await
        .unwrap()
}

fn waiting(address: SocketAddr, calls: usize, config: Value, fields: Value) -> Value {
    let calls: Vec<_> = (0..calls).map(|_| call(fields.clone())).collect();
    let document = document("grpc", &address.to_string(), calls.into());
    with(document, "service_config", config)
}

fn config(waits: bool) -> Value {
    let mut config = retrying(2);
    config["methodConfig"][0]["waitForReady"] = waits.into();
    config
}

/// R16: waiting uses no attempt; the service config sets the default, the call overrides it.
#[tokio::test]
async fn a_call_that_waits_for_readiness_waits_for_the_server() {
    for (config, fields) in [
        (
            json!({}),
            json!({"wait_for_ready": true, "timeout_ms": 20_000}),
        ),
        (config(true), json!({"timeout_ms": 20_000})),
        (
            config(false),
            json!({"wait_for_ready": true, "timeout_ms": 20_000}),
        ),
    ] {
        let address = nobody().await;
        let document = waiting(address, 1, config, fields);
        let (answer, server) = tokio::join!(answer(document), later(address));
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial"]);
        assert!(ms(&answer["elapsed_ms"]) >= 299.0, "{answer}");
        // `grpc-timeout` excludes the time spent waiting.
        let timeout = server.seen()[0].header("grpc-timeout").unwrap().to_owned();
        let left: u32 = timeout.trim_end_matches('u').parse().unwrap();
        assert!(left <= 20_000_000 - 299_000, "{timeout}");
    }
}

/// The call overrides the config.
#[tokio::test]
async fn a_call_that_does_not_wait_fails() {
    let address = nobody().await;
    let document = waiting(address, 1, config(true), json!({"wait_for_ready": false}));
    let answer = answer(document).await;
    assert_eq!(answer["code"], 14, "{answer}");
    assert!(each(&answer, "n").len() > 1);
}

#[tokio::test]
async fn it_ends_at_the_deadline_without_having_sent_anything() {
    let address = nobody().await;
    let fields = json!({"wait_for_ready": true, "timeout_ms": 150});
    let answer = answer(waiting(address, 1, json!({}), fields)).await;
    assert_eq!(answer["code"], 4, "{answer}");
    assert_eq!(answer["timeout"], "unambiguous");
    assert!(
        each(&answer, "stage")
            .iter()
            .all(|stage| stage == "dispatch")
    );
}

/// They wait for the same connection.
#[tokio::test]
async fn calls_that_wait_together_share_the_connection() {
    let address = nobody().await;
    let document = waiting(address, 10, json!({}), json!({"wait_for_ready": true}));
    let document = with(document, "concurrency", json!("parallel"));
    let (answers, server) = tokio::join!(answers(document), later(address));
    assert_eq!(answers.len(), 10);
    assert!(answers.iter().all(|answer| answer["code"] == 0));
    assert_eq!(server.connections_accepted(), 1);
}

/// The server stops between two calls and restarts.
#[tokio::test]
async fn a_call_waits_for_a_server_that_comes_back() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let address = server.addr();
    let fields = json!({"wait_for_ready": true});
    let mut document = waiting(address, 2, json!({}), fields);
    document["calls"][1]["start_delay_ms"] = json!(200);
    let running = tokio::spawn(answers(document));
    server.wait_seen(1).await;
    tokio::time::sleep(millis(50)).await;
    server.stop().await;
    let _server = later(address).await;
    for answer in running.await.unwrap() {
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial"]);
    }
}
