//! Error maps of every form.

use reattempt_testbed::kv::{Cluster, Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, with};

const INDICATED: &str = "KV_ERROR_MAP_RETRY_INDICATED";

async fn node(map: impl Into<bytes::Bytes>) -> Node {
    Node::builder().error_map(map).start().await.unwrap()
}

/// A map with these attributes for the status 0xff0.
fn map_of(attributes: &[&str]) -> String {
    json!({"version": 2, "revision": 1, "errors": {
        "ff0": {"name": "N", "desc": "d", "attrs": attributes},
    }})
    .to_string()
}

/// C17 C18 C21: three attributes mean retry, one means never, the others do not decide.
#[tokio::test]
async fn of_an_unknown_status_the_attributes_decide() {
    for (attributes, again) in [
        (&["retry-now"][..], true),
        (&["retry-later", "temp"], true),
        (&["auto-retry", "of-tomorrow"], true),
        (&["temp"], false),
        (&["item-only", "auth", "internal", "support"], false),
        (
            &["no-retry", "retry-now", "retry-later", "auto-retry"],
            false,
        ),
        (&["RETRY-NOW", "retry now"], false),
        (&[], false),
    ] {
        let node = node(map_of(attributes)).await;
        node.script().push(Step::status(0xff0));
        node.script().push(Step::status(0));
        let answer = answer(one(&node, write())).await;
        if again {
            assert_eq!(answer["stopped"], "success", "{attributes:?}: {answer}");
            assert_eq!(answer["reasons"], json!([INDICATED]));
            assert_eq!(each(&answer, "delay_ms"), delays(&[1]));
        } else {
            assert_final(&answer, 0xff0);
        }
        assert_eq!(node.connections(), 1, "{attributes:?}");
    }
}

/// C19 C20: the connection is closed, and a retry uses another one.
#[tokio::test]
async fn two_attributes_cost_the_connection() {
    for (attributes, again, connections) in [
        (&["conn-state-invalidated"][..], false, 2),
        (&["special-handling"], false, 2),
        (&["conn-state-invalidated", "retry-now"], true, 2),
        (&["special-handling", "retry-later"], true, 2),
        (&["auth"], false, 1),
    ] {
        let node = node(map_of(attributes)).await;
        node.script().push(Step::status(0xff0));
        let answers = answers(several(&node, json!([get(), get()]))).await;
        if again {
            assert_eq!(answers[0]["reasons"], json!([INDICATED]), "{answers:?}");
            assert_eq!(answers[0]["status"], 1);
        } else {
            assert_final(&answers[0], 0xff0);
        }
        assert_eq!(answers[1]["status"], 1, "{attributes:?}");
        assert_eq!(node.connections(), connections, "{attributes:?}");
        let last = node.seen_data().last().unwrap().connection;
        assert_eq!(last, connections);
    }
}

/// C19: whether it is retried or not.
#[tokio::test]
async fn fetch_config_asks_for_a_configuration() {
    for (attributes, again) in [
        (&["fetch-config"][..], false),
        (&["fetch-config", "retry-now"], true),
    ] {
        let node = node(map_of(attributes)).await;
        node.script().push(Step::status(0xff0));
        let document = with(one(&node, write()), "linger_ms", json!(200));
        let answer = answer(document).await;
        assert_eq!(
            answer["stopped"],
            if again { "success" } else { "fatal" },
            "{answer}"
        );
        assert_eq!(
            configs(&node),
            2,
            "{attributes:?}: at the set-up, and for the attribute"
        );
    }
}

/// C24
#[tokio::test]
async fn keys_are_hex_in_any_case_with_any_zeros() {
    for key in ["fa0", "FA0", "0fa0", "00000Fa0"] {
        let map = json!({"version": 1, "revision": 1, "errors": {key: {"attrs": ["retry-now"]}}});
        let node = node(map.to_string()).await;
        node.script().push(Step::status(0xfa0));
        let answer = answer(one(&node, write())).await;
        assert_eq!(answer["reasons"], json!([INDICATED]), "{key}: {answer}");
    }
}

/// C23 C25: only a malformed entry is skipped; the rest of the map is used, whatever its version.
#[tokio::test]
async fn what_can_be_read_of_a_map_is_used() {
    let good = r#""ff0": {"name": "N", "desc": "d", "attrs": ["retry-now"]}"#;
    for map in [
        format!(r#"{{"version": 1, "revision": 1, "errors": {{{good}}}}}"#),
        format!(r#"{{"version": 2, "revision": 9, "errors": {{{good}}}}}"#),
        format!(r#"{{"version": 77, "revision": 18446744073709551615, "errors": {{{good}}}, "more": [1]}}"#),
        format!(r#"{{"errors": {{{good}}}}}"#),
        format!(r#"{{"version": 2, "revision": 1, "errors": {{"0xff1": {{"attrs": []}}, "": 1, "-1": 2, {good}}}}}"#),
        format!(r#"{{"version": 2, "revision": 1, "errors": {{"10000": {{"attrs": []}}, "ff1": null, {good}}}}}"#),
        format!(r#"{{"version": 2, "revision": 1, "errors": {{"ff1": {{}}, "ff2": {{"attrs": "x"}}, "ff3": {{"attrs": [1]}}, {good}}}}}"#),
        r#"{"version": 2, "revision": 1, "errors": {"ff0": {"attrs": ["retry-now"]}}}"#.to_owned(),
        r#"{"version": 2, "revision": 1, "errors": {"ff0": {"name": 1, "desc": [], "attrs": ["retry-now"], "retry": 7}}}"#.to_owned(),
    ] {
        let node = node(map.clone()).await;
        node.script().push(Step::status(0xff0));
        let answer = answer(one(&node, write())).await;
        assert_eq!(answer["reasons"], json!([INDICATED]), "{map}: {answer}");
        assert_eq!(node.connections(), 1, "{map}");
    }
}

/// C23: and the connection works without a map.
#[tokio::test]
async fn what_is_no_map_is_ignored() {
    let deep = "[".repeat(100_000);
    let huge = format!(
        r#"{{"version": 2, "revision": 1, "errors": {{"ff0": {{"attrs": ["retry-now"], "desc": "{}"}}}}}}"#,
        "x".repeat(2 << 20)
    );
    for map in [
        "",
        "{",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"version": 2}"#,
        r#"{"version": 2, "revision": 1, "errors": []}"#,
        r#"{"version": 2, "revision": 1, "errors": null}"#,
        "\u{0}\u{1}",
        &deep,
        &huge,
    ] {
        let node = node(map.to_owned()).await;
        node.script().push(Step::status(0xff0));
        let answers = answers(several(&node, json!([get(), get()]))).await;
        assert_final(&answers[0], 0xff0);
        assert_eq!(answers[1]["status"], 1, "{answers:?}");
        assert_eq!(node.connections(), 1);
    }
    let node = Node::builder().no_error_map().start().await.unwrap();
    node.script().push(Step::status(0xff0));
    assert_final(&answer(one(&node, get())).await, 0xff0);
}

/// A large map with every kind of entry.
#[tokio::test]
async fn a_map_of_every_status_is_read() {
    let entry = |status: u32| {
        (
            format!("{status:x}"),
            json!({"name": "N", "desc": "d", "attrs": ["retry-later"]}),
        )
    };
    let errors: serde_json::Map<_, _> = (0..10_000).map(entry).collect();
    let node = node(json!({"version": 2, "revision": 1, "errors": errors}).to_string()).await;
    node.script().push(Step::status(9999));
    let answer = answer(one(&node, write())).await;
    assert_eq!(answer["reasons"], json!([INDICATED]), "{answer}");
}

/// C22: each node has its own map.
#[tokio::test]
async fn maps_do_not_cross_between_nodes() {
    let cluster = Cluster::start(2).await.unwrap();
    let body = map_of(&["retry-now"]);
    cluster
        .node(1)
        .script()
        .push(Step::status(0).body(body).only(opcode::GET_ERROR_MAP));
    let key = |node| cluster.key_of(node, "key").unwrap();
    for node in 0..2 {
        cluster.node(node).script().push(Step::status(0xff0));
    }
    let call = |key: String| json!({"op": "set", "key": key, "value": HELLO, "timeout_ms": 20_000});
    let answers = answers(seeded(&cluster, json!([call(key(0)), call(key(1))]))).await;
    assert_final(&answers[0], 0xff0);
    assert_eq!(answers[1]["reasons"], json!([INDICATED]), "{answers:?}");
}

/// C22: and so has each connection.
#[tokio::test]
async fn a_new_connection_brings_its_own_map() {
    let node = node(map_of(&[])).await;
    let script = node.script();
    script.push(
        Step::status(0)
            .body(map_of(&["retry-now", "conn-state-invalidated"]))
            .only(opcode::GET_ERROR_MAP),
    );
    script.repeat(&Step::status(0xff0), 2);
    let answer = answer(one(&node, write())).await;
    assert_eq!(answer["status"], 0xff0, "{answer}");
    assert_eq!(each(&answer, "verdict"), ["retry", "fatal"]);
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(each(&answer, "delay_ms"), [json!(1), Value::Null]);
}
