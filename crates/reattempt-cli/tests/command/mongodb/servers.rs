//! Deployments and eligible servers: roles, routers, read preferences.

use reattempt_testbed::mongodb::Step;
use reattempt_testbed::mongodb::node::Role;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

fn mode(command: &SeenCommand) -> Option<&str> {
    command
        .document
        .get_document("$readPreference")
        .ok()?
        .get_str("mode")
        .ok()
}

/// Two routers of one cluster with one document.
async fn routers() -> [Node; 2] {
    let builder = Node::builder().role(Role::Mongos);
    [built(builder.clone(), 1).await, built(builder, 0).await]
}

/// M21: routers of one cluster, as a list.
#[tokio::test]
async fn routers_are_a_list_of_servers_to_choose_from() {
    let routers = routers().await;
    let hosts = routers.each_ref().map(Node::address).join(",");
    for router in &routers {
        router.script().on("find", Step::close_before());
    }
    let call = || json!({"op": "find"});
    let answers = answers(several(
        &format!("mongodb://{hosts}/"),
        (0..12).map(|_| call()),
    ))
    .await;
    assert!(
        answers
            .iter()
            .all(|answer| answer["documents"] == 1 || each(answer, "n").len() == 2),
        "{answers:?}"
    );
    let each_got = routers.each_ref().map(|router| sent(router).len());
    assert!(each_got.iter().all(|count| *count > 0), "{each_got:?}");
}

/// M20 M21: a router that has stopped is not used again.
#[tokio::test]
async fn a_router_that_is_gone_leaves_the_other() {
    let routers = routers().await;
    for router in &routers {
        router.script().on("find", Step::hang());
    }
    let hosts = routers.each_ref().map(Node::address).join(",");
    let running = tokio::spawn(answer(several(
        &format!("mongodb://{hosts}/?readPreference=nearest"),
        [find()],
    )));
    let gone = tokio::select! {
        _ = routers[0].until_seen("find", 1) => 0,
        _ = routers[1].until_seen("find", 1) => 1,
    };
    routers[1 - gone].script().clear();
    routers[gone].stop().await;
    let answer = running.await.unwrap();
    assert_mended(&answer);
    assert_eq!(
        each(&answer, "backend"),
        [gone, 1 - gone].map(|index| routers[index].address())
    );
    assert_eq!(
        mode(&sent(&routers[1 - gone])[0]),
        Some("nearest"),
        "a router receives the preference"
    );
}

/// M21: the read preference applies to the retry as well.
#[tokio::test]
async fn the_read_preference_holds_for_both_attempts() {
    for (preference, primary) in [
        ("primary", true),
        ("primaryPreferred", true),
        ("secondary", false),
        ("secondaryPreferred", false),
    ] {
        let set = replica_set(2).await;
        for node in set.nodes() {
            node.script().on("find", Step::code(UNREACHABLE));
        }
        let target = format!("{}&readPreference={preference}", set.uri());
        let answer = answer(several(&target, [find()])).await;
        assert_mended(&answer);
        let index = usize::from(!primary);
        let address = set.nodes()[index].address();
        assert_eq!(each(&answer, "backend"), [address, address], "{preference}");
        let sent = sent(&set.nodes()[index]);
        let told = (preference != "primary").then_some(preference);
        assert!(sent.iter().all(|command| mode(command) == told), "{sent:?}");
    }
}

/// Writes, transactions and generic commands go to the primary, whatever the client's read
/// preference.
#[tokio::test]
async fn what_is_no_plain_read_goes_to_the_primary() {
    let set = replica_set(3).await;
    let target = format!("{}&readPreference=secondary", set.uri());
    let ops = [
        "insertOne",
        "txnFind",
        "runCommandFind",
        "aggregateOut",
        "aggregateMerge",
    ];
    for answer in answers(several(&target, ops.map(|op| json!({"op": op})))).await {
        assert_eq!(answer["stopped"], "success", "{answer}");
        assert_eq!(each(&answer, "backend"), [set.nodes()[0].address()]);
    }
    assert!(
        sent(&set.nodes()[0])
            .iter()
            .all(|command| mode(command).is_none())
    );
}

/// With a direct connection a member of any role answers.
#[tokio::test]
async fn a_direct_connection_asks_this_member_only() {
    let set = replica_set(2).await;
    let secondary = &set.nodes()[1];
    secondary.script().on("find", Step::code(UNREACHABLE));
    let answer = answer(several(&uri(secondary, "directConnection=true"), [find()])).await;
    assert_mended(&answer);
    assert_eq!(
        each(&answer, "backend"),
        [secondary.address(), secondary.address()]
    );
    assert_eq!(set.nodes()[0].seen().len(), 0);
}

/// One member of a set is enough to find the others.
#[tokio::test]
async fn one_seed_leads_to_the_primary() {
    let set = replica_set(3).await;
    for options in ["", "replicaSet=rs0"] {
        let answer = answer(several(&uri(&set.nodes()[2], options), [find()])).await;
        assert_eq!(
            each(&answer, "backend"),
            [set.nodes()[0].address()],
            "{answer}"
        );
    }
}

/// A server of another set is not used.
#[tokio::test]
async fn a_member_of_another_set_is_passed_over() {
    let set = replica_set(1).await;
    let target = uri(
        &set.nodes()[0],
        "replicaSet=other&serverSelectionTimeoutMS=200",
    );
    let answer = answer(several(&target, [find()])).await;
    assert_failed(&answer, 1, Value::Null, "first");
    assert_eq!(sent(&set.nodes()[0]).len(), 0);
}
