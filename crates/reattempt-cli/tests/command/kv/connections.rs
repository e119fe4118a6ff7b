//! Broken connections, and invalid responses.

use std::collections::HashSet;
use std::sync::Mutex;

use bytes::BytesMut;
use reattempt_testbed::kv::frame::Magic;
use reattempt_testbed::kv::{Frame, Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, with};

const LOST: &str = "SOCKET_CLOSED_WHILE_IN_FLIGHT";

/// All ways to lose the response of a request in flight.
fn losing() -> Vec<(&'static str, Step)> {
    let mut empty = BytesMut::new();
    Frame::new(Magic::Request, 0x0e, 0)
        .encode(&mut empty)
        .unwrap();
    let mut inside_out = BytesMut::from(&[0x81, 0, 0xff, 0xff][..]);
    inside_out.extend_from_slice(&[0; 20]);
    vec![
        ("closed before", Step::close_before()),
        ("closed after the work", Step::lost_answer()),
        ("reset", Step::reset()),
        ("half an answer", Step::half_frame()),
        ("wrong magic", Step::bad_magic()),
        ("absurd length", Step::absurd_length()),
        ("text", Step::raw("HTTP/1.1 400 Bad Request\r\n\r\n")),
        ("zeros", Step::raw(vec![0; 64])),
        ("a request", Step::raw(empty)),
        ("a key longer than the body", Step::raw(inside_out)),
    ]
}

/// C12: a read is sent again, over a new connection.
#[tokio::test]
async fn a_read_whose_answer_is_lost_is_sent_again() {
    for (what, step) in losing() {
        let node = Node::scripted([step]).await.unwrap();
        node.store().put("k", "hello");
        let answer = answer(one(&node, get())).await;
        assert_eq!(answer["value"], HELLO, "{what}: {answer}");
        assert_eq!(answer["reasons"], json!([LOST]), "{what}");
        assert_eq!(each(&answer, "verdict"), ["retry", "success"]);
        assert_eq!(each(&answer, "stage"), ["in_flight", "response"], "{what}");
        assert_eq!(each(&answer, "delay_ms"), delays(&[1]), "{what}");
        assert_eq!(each(&answer, "backend"), vec![node.addr().to_string(); 2]);
        assert_eq!(node.connections(), 2, "{what}");
    }
}

/// C12: under every strategy, because the write may have been executed.
#[tokio::test]
async fn a_write_with_a_lost_answer_is_not_retried_by_any_strategy() {
    let strategies = [
        json!("best_effort"),
        json!("fail_fast"),
        json!("error_map"),
        json!({"constant_ms": 1, "max_attempts": 9}),
    ];
    for (n, (what, step)) in losing().into_iter().enumerate() {
        let strategy = strategies[n % strategies.len()].clone();
        let node = Node::scripted([step]).await.unwrap();
        node.store().put("k", "v");
        let answer = answer(with(one(&node, write()), "strategy", strategy.clone())).await;
        assert_eq!(
            answer["stopped"], "not_idempotent",
            "{what} {strategy}: {answer}"
        );
        assert_eq!(answer["reasons"], json!([LOST]), "{what}");
        assert_eq!(answer["status"], Value::Null);
        assert_eq!(answer["value"], Value::Null);
        assert_eq!(answer["timeout"], Value::Null);
        assert!(answer["error"].is_string());
        assert_eq!(each(&answer, "stage"), ["in_flight"]);
        assert_eq!(node.seen_data().len(), 1, "{what}");
    }
}

/// Later requests are not delayed.
#[tokio::test]
async fn a_connection_that_is_closed_after_an_answer_costs_nothing() {
    let node = Node::scripted([Step::close_after(), Step::execute()])
        .await
        .unwrap();
    let calls = json!([
        {"op": "set", "key": "k", "value": HELLO, "timeout_ms": 20_000},
        {"op": "append", "key": "k", "value": HELLO, "timeout_ms": 20_000, "start_delay_ms": 150},
    ]);
    let answers = answers(several(&node, calls)).await;
    for answer in &answers {
        assert_eq!(answer["status"], 0, "{answer}");
        assert_eq!(each(answer, "n"), [1]);
    }
    assert_eq!(node.connections(), 2);
}

/// A response without a request does not end the connection.
#[tokio::test]
async fn an_answer_to_nobody_is_ignored() {
    let node = Node::scripted([Step::stray_first()]).await.unwrap();
    let answer = answer(one(&node, get())).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert_eq!((each(&answer, "n").len(), node.connections()), (1, 1));

    let node = Node::scripted([Step::wrong_opaque()]).await.unwrap();
    let call = json!({"op": "append", "key": "k", "timeout_ms": 200});
    let answer = super::super::answer(one(&node, call)).await;
    assert_eq!(answer["timeout"], "ambiguous", "{answer}");
}

/// All requests in flight on it are lost with it, and each is judged separately.
#[tokio::test]
async fn who_shares_a_broken_connection_is_judged_alone() {
    // The first response to the key `k` is slow, the first to `first` breaks the connection.
    let seen = Mutex::new(HashSet::new());
    let handler = move |request: &SeenRequest| {
        let first_time = seen
            .lock()
            .unwrap()
            .insert((request.opcode, request.key.clone()));
        first_time.then(|| match &*request.key {
            b"first" => Step::bad_magic(),
            _ => Step::execute().after(millis(20_000)),
        })
    };
    let node = Node::builder().handler(handler).start().await.unwrap();
    let call = |name, op, key, start| json!({"call": name, "op": op, "key": key, "timeout_ms": 40_000, "start_delay_ms": start});
    let calls = json!([
        call("read", "get", "k", 0),
        call("write", "set", "k", 0),
        call("breaks", "get", "first", 1000),
    ]);
    let answers = answers(with(
        several(&node, calls),
        "concurrency",
        json!("parallel"),
    ))
    .await;
    for (name, status) in [
        ("read", json!(0)),
        ("write", Value::Null),
        ("breaks", json!(1)),
    ] {
        let answer = answers
            .iter()
            .find(|answer| answer["call"] == name)
            .unwrap();
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["reasons"], json!([LOST]), "{answer}");
    }
    assert_eq!(node.connections(), 2);
}

/// C13: no node listens, so nothing was sent: a write too is retried until one does.
#[tokio::test]
async fn a_write_that_never_left_waits_for_its_node() {
    let node = Node::start().await.unwrap();
    node.store().put("k", "v");
    node.stop().await;
    let running = tokio::spawn(answers(one(&node, write())));
    tokio::time::sleep(millis(400)).await;
    node.restart().await.unwrap();
    let answer = running.await.unwrap().remove(0);
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(answer["reasons"], json!(["NODE_NOT_AVAILABLE"]));
    let stages = each(&answer, "stage");
    assert_eq!(stages.last(), Some(&json!("response")));
    assert!(
        stages[..stages.len() - 1]
            .iter()
            .all(|stage| stage == "dispatch")
    );
    assert_eq!(each(&answer, "delay_ms")[..4], [1, 2, 4, 8]);
    assert_eq!(node.seen_data().len(), 1);
}
