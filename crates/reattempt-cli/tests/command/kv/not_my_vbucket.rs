//! Status 0x07, and the configurations that it carries.

use reattempt_testbed::kv::{Cluster, Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, with};

/// A configuration of one bucket on these nodes with this revision; the first node owns every
/// vbucket.
fn config(nodes: &[String], epoch: Value, rev: i64) -> String {
    let server = |node: &String| {
        let port: u16 = node.rsplit(':').next().unwrap().parse().unwrap();
        json!({"hostname": "127.0.0.1", "services": {"kv": port, "mgmt": 8091}})
    };
    let mut config = json!({
        "rev": rev, "revEpoch": epoch, "name": "default", "nodeLocator": "vbucket",
        "nodesExt": nodes.iter().map(server).collect::<Vec<_>>(),
        "vBucketServerMap": {
            "hashAlgorithm": "CRC", "numReplicas": 0, "serverList": nodes, "vBucketMap": vec![json!([0]); 64],
        },
    });
    if epoch.is_null() {
        config.as_object_mut().unwrap().remove("revEpoch");
    }
    config.to_string()
}

fn refuses(body: impl Into<String>) -> Step {
    Step::status(NOT_MY_VBUCKET).body(body.into())
}

/// Disables polling and refreshing in the test.
fn quiet(document: Value) -> Value {
    let document = with(document, "config_poll_interval_ms", json!(60_000));
    with(document, "config_poll_floor_ms", json!(60_000))
}

/// C33 C50: the configuration is applied first, then the request is sent at once to the new owner.
#[tokio::test]
async fn a_newer_configuration_that_moves_the_key_is_followed_at_once() {
    let cluster = Cluster::start(2).await.unwrap();
    let addresses: Vec<_> = cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let key = cluster.key_of(0, "key").unwrap();
    cluster.store().put(key.clone(), "v");
    for strategy in ["best_effort", "fail_fast"] {
        let newer = config(&[addresses[1].clone()], json!(1), 2);
        cluster.node(0).script().push(refuses(newer));
        // The scripted other node has to own the vbucket too.
        let to_one = Step::status(0).body("there");
        cluster.node(1).script().push(to_one);
        let call = json!({"op": "append", "key": key, "value": HELLO, "timeout_ms": 20_000});
        let document = with(
            quiet(seeded(&cluster, json!([call]))),
            "strategy",
            json!(strategy),
        );
        let answer = answer(document).await;
        assert_eq!(answer["status"], 0, "{answer}");
        assert_eq!(
            each(&answer, "backend"),
            [json!(addresses[0]), json!(addresses[1])]
        );
        assert_eq!(
            each(&answer, "delay_ms"),
            [json!(0), Value::Null],
            "{answer}"
        );
        assert_eq!(answer["reasons"], json!(["KV_NOT_MY_VBUCKET"]));
        assert_eq!(answer["config_revision"], json!([1, 2]));
    }
}

/// C33 C50: a configuration that is not newer is not applied, and the back-off is awaited.
#[tokio::test]
async fn what_is_not_newer_is_not_applied_and_waits() {
    let elsewhere = ["127.0.0.1:1".to_owned()];
    for (epoch, rev) in [
        (json!(5), 7),
        (json!(5), 6),
        (json!(4), 99),
        (Value::Null, 99),
        (json!(-1), 99),
    ] {
        let node = Node::builder().revision(5, 7).start().await.unwrap();
        let body = config(&elsewhere, epoch.clone(), rev);
        node.script().repeat(&refuses(body), 3);
        let answer = answer(quiet(one(&node, write()))).await;
        assert_eq!(answer["stopped"], "success", "{epoch} {rev}: {answer}");
        assert_eq!(each(&answer, "delay_ms"), delays(&[1, 10, 50]));
        assert_eq!(answer["config_revision"], json!([5, 7]));
        assert_eq!(node.seen_data().len(), 4);
    }
}

/// C50: the epoch is compared first; a missing one is 0.
#[tokio::test]
async fn a_higher_epoch_beats_any_revision() {
    for (has, comes, in_force) in [
        ((5, 7), (json!(6), 1), [6, 1]),
        ((5, 7), (json!(5), 8), [5, 8]),
        ((0, 7), (Value::Null, 8), [0, 8]),
        ((-1, 7), (Value::Null, 1), [0, 1]),
    ] {
        let node = Node::builder()
            .revision(has.0, has.1)
            .start()
            .await
            .unwrap();
        let here = [node.addr().to_string()];
        node.script().push(refuses(config(&here, comes.0, comes.1)));
        let answer = answer(quiet(one(&node, write()))).await;
        assert_eq!(answer["config_revision"], json!(in_force), "{answer}");
        assert_eq!(
            each(&answer, "delay_ms"),
            delays(&[1]),
            "the key has not moved"
        );
    }
}

/// C33: no usable configuration; the controlled back-off applies.
#[tokio::test]
async fn an_empty_or_unreadable_body_leaves_it_to_the_back_off() {
    let long = format!("[{}]", "1,".repeat(10_000));
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\u{0}",
        r#"{"rev": "x"}"#,
        r#"{"rev": 9, "nodesExt": 1}"#,
        &long,
        r#"{"rev": 9, "name": "default", "nodesExt": [{"hostname": "x y", "services": {"kv": 1}}]}"#,
        r#"{"rev": 9, "name": "default", "nodesExt": [{"services": {"kv": 99999}}]}"#,
    ];
    for body in bodies {
        let node = Node::scripted(vec![refuses(body); 4]).await.unwrap();
        let answer = answer(quiet(one(&node, write()))).await;
        assert_eq!(answer["stopped"], "success", "{body}: {answer}");
        assert_eq!(
            each(&answer, "delay_ms"),
            delays(&[1, 10, 50, 100]),
            "{body}"
        );
        assert_eq!(answer["config_revision"], json!([1, 1]));
        assert_eq!(node.connections(), 1, "{body}");
    }
}

/// C33: an empty response triggers a poll, which finds the new owner.
#[tokio::test]
async fn an_empty_body_asks_for_the_configuration() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(0, "key").unwrap();
    let set = json!({"op": "set", "key": key, "value": HELLO, "timeout_ms": 20_000});
    let mut late = set.clone();
    late["start_delay_ms"] = json!(700);
    let document = with(
        seeded(&cluster, json!([set, late])),
        "config_poll_interval_ms",
        json!(60_000),
    );
    let running = tokio::spawn(answers(document));
    while cluster.node(0).seen_data().is_empty() {
        tokio::time::sleep(millis(5)).await;
    }
    cluster.node(0).script().repeat(&refuses(""), 2);
    cluster.move_vbuckets(0, 1);
    let answers = running.await.unwrap();
    let after = &answers[1];
    assert_eq!(after["status"], 0, "{after}");
    assert_eq!(after["reasons"], json!(["KV_NOT_MY_VBUCKET"]));
    let (epoch, rev) = cluster.revision();
    assert_eq!(after["config_revision"], json!([epoch, rev]));
    let last = cluster.node(1).addr().to_string();
    assert_eq!(each(after, "backend").last(), Some(&json!(last)));
}

/// A cluster cannot make a call loop: after sixteen immediate retries the back-off applies.
#[tokio::test]
async fn a_key_moved_by_every_answer_ends_at_the_deadline() {
    let nodes = [Node::start().await.unwrap(), Node::start().await.unwrap()];
    let addresses = nodes.each_ref().map(|node| node.addr().to_string());
    for rev in 2..1000 {
        let other = &addresses[rev % 2];
        nodes[(rev + 1) % 2].script().push(refuses(config(
            std::slice::from_ref(other),
            json!(1),
            rev as i64,
        )));
    }
    let mut call = write();
    call["timeout_ms"] = json!(2500);
    // The first refusal comes from the node whose configuration names the other.
    let seed = &nodes[1];
    let answer = answer(quiet(one(seed, call))).await;
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    assert_eq!(answer["timeout"], "unambiguous");
    let sent = nodes[0].seen_data().len() + nodes[1].seen_data().len();
    assert!((17..22).contains(&sent), "{sent}: {answer}");
}

/// A single node that writes `$HOST`.
#[tokio::test]
async fn a_placeholder_is_the_host_that_was_asked() {
    let node = Node::builder().host_placeholder().start().await.unwrap();
    node.script().push(Step::not_my_vbucket());
    let answer = answer(one(&node, get())).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert_eq!(
        each(&answer, "backend"),
        [
            json!(node.addr().to_string()),
            json!(node.addr().to_string())
        ]
    );
}
