//! Strategies and their delays.

use reattempt_testbed::kv::{Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, assert_times, each, ms, with};

async fn fails(times: usize, status: u16) -> Node {
    Node::scripted(vec![Step::status(status); times])
        .await
        .unwrap()
}

/// Asserts that the attempts respect the delays on the node's clock as well.
#[track_caller]
fn assert_sent(node: &Node, answer: &Value, op: u8) {
    let arrived = seen(node, op);
    let starts = each(answer, "start_ms");
    assert_eq!(arrived.len(), starts.len(), "{answer}");
    for (n, delay) in each(answer, "delay_ms").iter().enumerate() {
        if let (Some(delay), Some(next)) = (delay.as_f64(), starts.get(n + 1)) {
            let gap = ms(next) - ms(&each(answer, "end_ms")[n]);
            assert!(
                (delay - 0.1..delay + ROOM).contains(&gap),
                "{gap}: {answer}"
            );
            let gap = arrived[n + 1].arrived - arrived[n].arrived;
            assert!(gap.as_secs_f64() * 1e3 > delay - 5.0, "{gap:?}: {answer}");
        }
    }
}

/// C3 C4
#[tokio::test]
async fn best_effort_waits_from_1_to_500_ms() {
    let node = fails(11, TEMPORARY_FAILURE).await;
    let answer = answer(one(&node, write())).await;
    let waited = [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500];
    assert_eq!(each(&answer, "delay_ms"), delays(&waited), "{answer}");
    assert_eq!(answer["reasons"], json!(["KV_TEMPORARY_FAILURE"]));
    assert_sent(&node, &answer, opcode::SET);
    assert_times(&answer);
}

/// C5: by the number of retries made so far.
#[tokio::test]
async fn what_always_retries_waits_in_a_controlled_way() {
    let node = fails(7, 0x88).await;
    let answer = answer(one(&node, write())).await;
    let waited = [1, 10, 50, 100, 500, 1000, 1000];
    assert_eq!(each(&answer, "delay_ms"), delays(&waited), "{answer}");
    assert_sent(&node, &answer, opcode::SET);
}

/// C4 C5: both count all retries of the call.
#[tokio::test]
async fn the_delay_depends_on_all_retries_of_the_call() {
    let statuses = [0x86, 0x09, 0x88, 0xa2, 0x88, 0x86];
    let node = Node::scripted(statuses.map(Step::status)).await.unwrap();
    let answer = answer(one(&node, write())).await;
    let waited = [1, 2, 50, 8, 500, 32];
    assert_eq!(each(&answer, "delay_ms"), delays(&waited), "{answer}");
    let reasons = [
        "KV_TEMPORARY_FAILURE",
        "KV_LOCKED",
        "KV_COLLECTION_OUTDATED",
        "KV_SYNC_WRITE_IN_PROGRESS",
    ];
    assert_eq!(answer["reasons"], json!(reasons), "a set, first seen first");
}

/// C3 C6
#[tokio::test]
async fn fail_fast_says_no_but_to_what_always_retries() {
    for (status, reason) in [
        (0x86, "KV_TEMPORARY_FAILURE"),
        (0x09, "KV_LOCKED"),
        (0xa2, "KV_SYNC_WRITE_IN_PROGRESS"),
    ] {
        let node = fails(3, status).await;
        let answer = answer(with(one(&node, get()), "strategy", json!("fail_fast"))).await;
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["stopped"], "strategy");
        assert_eq!(answer["reasons"], json!([reason]));
        assert_eq!(each(&answer, "verdict"), ["retry"]);
        assert_eq!(each(&answer, "delay_ms"), [Value::Null]);
        assert_eq!(node.seen_data().len(), 1);
    }
    for status in [0x88, NOT_MY_VBUCKET] {
        let node = fails(3, status).await;
        let answer = answer(with(one(&node, write()), "strategy", json!("fail_fast"))).await;
        assert_eq!(answer["stopped"], "success", "{answer}");
        assert_eq!(each(&answer, "delay_ms"), delays(&[1, 10, 50]));
    }
}

/// C6: `max_attempts` includes the first attempt; always-retry reasons bypass it.
#[tokio::test]
async fn a_constant_strategy_has_its_delay_and_its_number_of_attempts() {
    let strategy = |max: u32| json!({"constant_ms": 20, "max_attempts": max});
    for (max, attempts) in [(1, 1), (2, 2), (4, 4)] {
        let node = fails(10, TEMPORARY_FAILURE).await;
        let answer = answer(with(one(&node, write()), "strategy", strategy(max))).await;
        assert_eq!(answer["status"], TEMPORARY_FAILURE);
        assert_eq!(answer["stopped"], "attempts", "{answer}");
        assert_eq!(answer["timeout"], Value::Null);
        assert_eq!(each(&answer, "delay_ms"), delays(&vec![20; attempts - 1]));
        assert_sent(&node, &answer, opcode::SET);
    }
    let node = fails(4, 0x88).await;
    let always = answer(with(one(&node, write()), "strategy", strategy(2))).await;
    assert_eq!(
        each(&always, "delay_ms"),
        delays(&[1, 10, 50, 100]),
        "{always}"
    );
    assert_eq!(always["stopped"], "success");

    let node = fails(2, TEMPORARY_FAILURE).await;
    let at_once = json!({"constant_ms": 0, "max_attempts": 3});
    let at_once = answer(with(one(&node, write()), "strategy", at_once)).await;
    assert_eq!(
        each(&at_once, "delay_ms"),
        delays(&[0, 0]),
        "C8: no delay is a retry"
    );
    assert_eq!(at_once["stopped"], "success");
}

/// C7: the failure is returned at once where waiting cannot help, under any strategy.
#[tokio::test]
async fn giving_up_returns_the_failure_that_the_server_gave() {
    for (status, strategy) in [
        (TEMPORARY_FAILURE, json!("best_effort")),
        (TEMPORARY_FAILURE, json!("error_map")),
        (
            TEMPORARY_FAILURE,
            json!({"constant_ms": 60_000, "max_attempts": 3}),
        ),
        (0x88, json!("fail_fast")),
        (0x88, json!("best_effort")),
        (0x88, json!("error_map")),
        (0x88, json!({"constant_ms": 5, "max_attempts": 3})),
    ] {
        let node = fails(1000, status).await;
        let call = json!({"op": "append", "key": "k", "timeout_ms": 1200});
        let document = with(one(&node, call), "on_deadline", json!("give_up"));
        let answer = answer(with(document, "strategy", strategy.clone())).await;
        assert_eq!(answer["stopped"], "deadline", "{strategy}: {answer}");
        assert_eq!(answer["status"], status, "{strategy}");
        assert_eq!(answer["timeout"], Value::Null, "{strategy}");
        assert_eq!(answer["error"], Value::Null);
        assert!(ms(&answer["elapsed_ms"]) < 1190.0, "{answer}");
    }
}
