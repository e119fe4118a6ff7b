//! The retry specifications of an error map, and the strategies that use them.

use reattempt_testbed::kv::{Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, each, ms, with};

/// A node whose map has this specification for 0xff0 and another for 0xff1, and that responds with
/// these statuses.
async fn node(retry: Value, statuses: &[u16]) -> Node {
    let map = json!({"version": 2, "revision": 1, "errors": {
        "ff0": {"name": "A", "desc": "a", "attrs": ["auto-retry"], "retry": retry},
        "ff1": {"name": "B", "desc": "b", "attrs": ["auto-retry"],
            "retry": {"strategy": "constant", "after": 3, "interval": 7}},
        "ff2": {"name": "C", "desc": "c", "attrs": ["retry-now"]},
        "ff3": {"name": "D", "desc": "d", "attrs": ["temp"],
            "retry": {"strategy": "constant", "after": 3, "interval": 7}},
    }});
    let node = Node::builder()
        .error_map(map.to_string())
        .start()
        .await
        .unwrap();
    for status in statuses {
        node.script().push(Step::status(*status));
    }
    node
}

fn by_the_map(node: &Node, call: Value) -> Value {
    with(one(node, call), "strategy", json!("error_map"))
}

/// C26 C27: `after`, then I, I·r or I^r; `ceil` bounds only the latter two.
#[tokio::test]
async fn the_specification_gives_the_delays() {
    for (retry, waited) in [
        (
            json!({"strategy": "constant", "after": 10, "interval": 25, "max-duration": 1500}),
            [10, 25, 25, 25, 25],
        ),
        (
            json!({"strategy": "constant", "after": 40, "interval": 25, "ceil": 5}),
            [40, 25, 25, 25, 25],
        ),
        (
            json!({"strategy": "linear", "after": 10, "interval": 10, "ceil": 25}),
            [10, 10, 20, 25, 25],
        ),
        (
            json!({"strategy": "linear", "after": 30, "interval": 5, "ceil": 0}),
            [30, 5, 10, 15, 20],
        ),
        (
            json!({"strategy": "exponential", "after": 10, "interval": 3, "ceil": 50}),
            [10, 3, 9, 27, 50],
        ),
        (
            json!({"strategy": "exponential", "after": 0, "interval": 2}),
            [0, 2, 4, 8, 16],
        ),
        (
            json!({"strategy": "exponential", "after": 5, "interval": 1, "max-duration": 0}),
            [5, 1, 1, 1, 1],
        ),
    ] {
        let node = node(retry.clone(), &[0xff0; 5]).await;
        let answer = answer(by_the_map(&node, write())).await;
        assert_eq!(answer["stopped"], "success", "{retry}: {answer}");
        assert_eq!(each(&answer, "delay_ms"), delays(&waited), "{retry}");
        assert_eq!(answer["reasons"], json!(["KV_ERROR_MAP_RETRY_INDICATED"]));
    }
}

/// C28: from the first failure, including `after`; then the server's response is returned.
#[tokio::test]
async fn max_duration_ends_the_retries() {
    let retry = json!({"strategy": "constant", "after": 60, "interval": 60, "max-duration": 200});
    let node = node(retry, &[0xff0; 20]).await;
    let answer = answer(by_the_map(&node, write())).await;
    assert_eq!(answer["stopped"], "strategy", "{answer}");
    assert_eq!(answer["status"], 0xff0);
    assert_eq!(answer["timeout"], Value::Null);
    let sent = each(&answer, "start_ms");
    assert!((2..=4).contains(&sent.len()), "{answer}");
    let first_failure = ms(&each(&answer, "end_ms")[0]);
    assert!(ms(sent.last().unwrap()) - first_failure < 200.0 + ROOM);
    assert!(ms(&answer["elapsed_ms"]) < 200.0 + ROOM);
}

/// C28: the smaller of the two applies.
#[tokio::test]
async fn a_deadline_before_max_duration_wins() {
    let retry =
        json!({"strategy": "constant", "after": 60, "interval": 60, "max-duration": 60_000});
    let node = node(retry, &[0xff0; 20]).await;
    let mut call = write();
    call["timeout_ms"] = json!(200);
    let answer = answer(by_the_map(&node, call)).await;
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    assert_eq!(answer["timeout"], "unambiguous");
    assert_eq!(answer["status"], 0xff0);
}

/// C29: also a status that always retries, or that the client knows.
#[tokio::test]
async fn another_status_in_between_restarts_the_count() {
    let retry = json!({"strategy": "linear", "after": 10, "interval": 20});
    for (statuses, waited) in [
        (
            &[0xff0, 0xff0, 0xff1, 0xff1, 0xff0, 0xff0][..],
            &[10, 20, 3, 7, 10, 20][..],
        ),
        // Best effort (1, 2, 4, 8) and the controlled back-off (1, 10, 50, 100) continue to count
        // all retries.
        (&[0xff0, 0xff0, 0x86, 0xff0, 0xff0], &[10, 20, 4, 10, 20]),
        (&[0xff0, 0xff0, 0xff0, 0x88, 0xff0], &[10, 20, 40, 100, 10]),
        (&[0xff0, 0xff2, 0xff0], &[10, 2, 10]),
    ] {
        let node = node(retry.clone(), statuses).await;
        let answer = answer(by_the_map(&node, write())).await;
        assert_eq!(each(&answer, "delay_ms"), delays(waited), "{answer}");
    }
    let node = node(retry, &[0xff0, 0xff0, 0xff3]).await;
    let answer = answer(by_the_map(&node, write())).await;
    assert_eq!(
        (&answer["status"], &answer["stopped"]),
        (&json!(0xff3), &json!("fatal")),
        "{answer}"
    );
    assert_eq!(
        each(&answer, "delay_ms"),
        delays(&[10, 20]),
        "it fails at once"
    );
}

/// C30: RFC 0049 forbids using them with another strategy.
#[tokio::test]
async fn any_other_strategy_has_its_own_delays() {
    let retry = json!({"strategy": "constant", "after": 90, "interval": 90, "max-duration": 1});
    for (strategy, waited) in [
        (json!("best_effort"), &[1, 2, 4][..]),
        (json!({"constant_ms": 6, "max_attempts": 9}), &[6, 6, 6]),
    ] {
        let node = node(retry.clone(), &[0xff0; 3]).await;
        let answer = answer(with(one(&node, write()), "strategy", strategy)).await;
        assert_eq!(each(&answer, "delay_ms"), delays(waited), "{answer}");
    }
}

/// C26: the entry is used, without its specification.
#[tokio::test]
async fn a_specification_that_cannot_be_read_is_left_to_best_effort() {
    for retry in [
        json!(null),
        json!([]),
        json!({}),
        json!({"strategy": "sometimes", "after": 50, "interval": 50}),
        json!({"strategy": "constant", "interval": 50}),
        json!({"strategy": "constant", "after": -1, "interval": 50}),
        json!({"strategy": "linear", "after": 50, "interval": "50"}),
    ] {
        let node = node(retry.clone(), &[0xff0; 2]).await;
        let answer = answer(by_the_map(&node, write())).await;
        assert_eq!(
            each(&answer, "delay_ms"),
            delays(&[1, 2]),
            "{retry}: {answer}"
        );
    }
}

/// No server-provided number makes a call hang or panic.
#[tokio::test]
async fn absurd_numbers_end_at_the_deadline_or_before() {
    const MAX: u64 = u64::MAX;
    for (retry, stopped) in [
        (
            json!({"strategy": "exponential", "after": 0, "interval": MAX}),
            "deadline",
        ),
        (
            json!({"strategy": "linear", "after": 0, "interval": MAX}),
            "deadline",
        ),
        (
            json!({"strategy": "constant", "after": MAX, "interval": 0}),
            "deadline",
        ),
        // Even the longest max-duration does not allow this delay.
        (
            json!({"strategy": "linear", "after": 0, "interval": MAX, "max-duration": MAX}),
            "strategy",
        ),
    ] {
        let node = node(retry.clone(), &[0xff0; 9]).await;
        let mut call = write();
        call["timeout_ms"] = json!(1000);
        let answer = answer(by_the_map(&node, call)).await;
        assert_eq!(answer["stopped"], stopped, "{retry}: {answer}");
        assert!(ms(&answer["elapsed_ms"]) < 1000.0 + ROOM);
    }
}
