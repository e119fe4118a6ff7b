//! Which server a retry avoids (`current`): a failed router always, an overloaded member when
//! configured, no other.

use reattempt_testbed::mongodb::Step;
use reattempt_testbed::mongodb::node::Role;
use serde_json::{Value, json};

use super::*;
use crate::{answer, each};

/// A member that answers every `find` with this step.
fn always(node: &Node, step: &Step) {
    let step = step.clone();
    node.script()
        .handler(move |seen| (seen.name == "find").then(|| step.clone()));
}

async fn routers(count: usize) -> Vec<Node> {
    let mut routers = Vec::new();
    for _ in 0..count {
        routers.push(Node::builder().role(Role::Mongos).start().await.unwrap());
    }
    routers
}

fn hosts(nodes: &[Node]) -> String {
    let addresses: Vec<_> = nodes.iter().map(Node::address).collect();
    format!("mongodb://{}/", addresses.join(","))
}

/// Each router is tried once until all were tried; then any.
#[tokio::test]
async fn failed_routers_are_avoided() {
    for step in [
        Step::code(UNREACHABLE),
        overloaded().with("baseBackoffMS", 1),
    ] {
        let routers = routers(3).await;
        routers.iter().for_each(|router| always(router, &step));
        let target = format!("{}?timeoutMS=20000&maxAdaptiveRetries=3", hosts(&routers));
        // Four attempts at three routers; then the calls are cancelled or the retries are used up.
        let document = current(
            &target,
            (0..4).map(|_| json!({"op": "find", "cancel_after_ms": 400})),
        );
        for answer in crate::answers(document).await {
            let backends = each(&answer, "backend");
            assert!(backends.len() >= 4, "{answer}");
            let mut first: Vec<_> = backends[..3].iter().filter_map(Value::as_str).collect();
            first.sort_unstable();
            first.dedup();
            assert_eq!(first.len(), 3, "{answer}");
        }
    }
}

/// E11: a single router is used again.
#[tokio::test]
async fn a_router_that_is_alone_is_asked_again() {
    let routers = routers(1).await;
    routers[0].script().on("find", Step::code(UNREACHABLE));
    let answer = answer(current(&hosts(&routers), [find()])).await;
    assert_mended(&answer);
    let alone = node(1).await;
    alone
        .script()
        .on("find", overloaded().with("baseBackoffMS", 1));
    let target = uri(&alone, "enableOverloadRetargeting=true");
    assert_mended(&crate::answer(current(&target, [find()])).await);
}

/// E7: in a set only overloaded members are avoided, and only when configured.
#[tokio::test]
async fn an_overloaded_member_is_avoided_when_asked_for() {
    let busy = || overloaded().with("baseBackoffMS", 1);
    for (step, options, index) in [
        (busy(), "enableOverloadRetargeting=true", 1),
        (
            Step::code(6)
                .label("SystemOverloadedError")
                .with("baseBackoffMS", 1),
            "enableOverloadRetargeting=true",
            1,
        ),
        (busy(), "enableOverloadRetargeting=false", 0),
        (busy(), "", 0),
        (Step::code(UNREACHABLE), "enableOverloadRetargeting=true", 0),
    ] {
        let set = replica_set(2).await;
        set.nodes()[0].script().on("find", step);
        let target = format!("{}&readPreference=primaryPreferred&{options}", set.uri());
        let answer = answer(current(&target, [find()])).await;
        assert_mended(&answer);
        let addresses = [0, index].map(|index| set.nodes()[index].address());
        assert_eq!(each(&answer, "backend"), addresses, "{options}");
    }
}

/// E11: with a preference that allows no other server, the same one is used again.
#[tokio::test]
async fn a_primary_that_must_answer_is_asked_again() {
    let set = replica_set(2).await;
    set.nodes()[0]
        .script()
        .on("find", overloaded().with("baseBackoffMS", 1));
    let target = format!("{}&enableOverloadRetargeting=true", set.uri());
    let answer = answer(current(&target, [find()])).await;
    assert_mended(&answer);
    let address = set.nodes()[0].address();
    assert_eq!(each(&answer, "backend"), [address, address]);
}

/// M21: in the 2022 specification no server is avoided.
#[tokio::test]
async fn the_specification_of_2022_avoids_nobody() {
    let set = replica_set(2).await;
    set.nodes()[0].script().on(
        "find",
        Step::code(UNREACHABLE).label("SystemOverloadedError"),
    );
    let target = format!(
        "{}&readPreference=primaryPreferred&enableOverloadRetargeting=true",
        set.uri()
    );
    let answer = answer(several(&target, [find()])).await;
    assert_mended(&answer);
    let address = set.nodes()[0].address();
    assert_eq!(each(&answer, "backend"), [address, address]);
    assert_eq!(answer["reasons"], json!(["MONGODB_SERVER_NETWORK_ERROR"]));
}
