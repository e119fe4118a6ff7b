//! Server selection, for the first attempt and for the retry (1 and 3: selecting the initial
//! server, encountering the error).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, each};

/// M13: a failed first selection is raised to the caller; no attempt was made.
#[tokio::test]
async fn a_first_selection_that_fails_is_raised_once() {
    let set = replica_set(2).await;
    set.elect(None);
    let target = format!("{}&serverSelectionTimeoutMS=300", set.uri());
    let answer = answer(several(&target, [find()])).await;
    assert_failed(&answer, 1, Value::Null, "first");
    assert_eq!(
        answer["attempts"][0]["reason"],
        "MONGODB_SERVER_SELECTION_FAILED"
    );
    assert_eq!(answer["attempts"][0]["stage"], "dispatch");
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(answer["timeout"], Value::Null);
    assert_eq!(answer["events"], json!([]));
    let elapsed = answer["elapsed_ms"].as_f64().unwrap();
    assert!((299.0..3000.0).contains(&elapsed), "{answer}");
}

/// M13: also when no server listens at the address.
#[tokio::test]
async fn nobody_at_the_address_is_a_failed_selection() {
    let node = node(1).await;
    node.stop().await;
    let answer = answer(several(
        &uri(&node, "serverSelectionTimeoutMS=200"),
        [find()],
    ))
    .await;
    assert_failed(&answer, 1, Value::Null, "first");
    assert_eq!(
        answer["attempts"][0]["reason"],
        "MONGODB_SERVER_SELECTION_FAILED"
    );
}

/// M20 M21: the client knows of the step-down before it selects again, and finds the new primary.
#[tokio::test]
async fn a_retry_goes_to_the_new_primary() {
    for members in [2, 3] {
        let set = replica_set(members).await;
        let last = members - 1;
        steps_down_at_find(&set, Some(last));
        let answer = answer(several(&set.uri(), [find()])).await;
        assert_mended(&answer);
        assert_eq!(answer["documents"], 1);
        let addresses = [0, last].map(|index| set.nodes()[index].address());
        assert_eq!(each(&answer, "backend"), addresses);
        assert_eq!(
            set.nodes()
                .iter()
                .map(|node| sent(node).len())
                .sum::<usize>(),
            2
        );
    }
}

/// M20: a client that did not notice the election learns of it from the old primary.
#[tokio::test]
async fn an_election_between_two_calls_costs_one_attempt() {
    let set = replica_set(2).await;
    let call =
        |name: &str, delay: u32| json!({"call": name, "op": "find", "start_delay_ms": delay});
    let document = several(&set.uri(), [call("before", 0), call("after", 500)]);
    let running = tokio::spawn(crate::answers(document));
    set.nodes()[0].until_seen("find", 1).await;
    // The answer to the first one is already in flight.
    tokio::time::sleep(millis(100)).await;
    set.elect(Some(1));
    let answers = running.await.unwrap();
    assert_eq!(each(&answers[0], "verdict"), ["success"], "{answers:?}");
    assert_mended(&answers[1]);
    assert_eq!(
        answers[1]["reasons"],
        json!(["MONGODB_NOT_WRITABLE_PRIMARY"])
    );
    assert_eq!(each(&answers[1], "backend")[1], set.nodes()[1].address());
}

/// M21: a retry waits for an election in progress.
#[tokio::test]
async fn a_retry_waits_for_the_election() {
    let set = replica_set(2).await;
    steps_down_at_find(&set, None);
    let running = tokio::spawn(answer(several(&set.uri(), [find()])));
    set.nodes()[0].until_seen("find", 1).await;
    tokio::time::sleep(millis(400)).await;
    set.elect(Some(1));
    let answer = running.await.unwrap();
    assert_mended(&answer);
    assert_eq!(each(&answer, "backend")[1], set.nodes()[1].address());
}

/// M21: a primary that fails during a read, and its successor.
#[tokio::test]
async fn a_primary_that_dies_is_followed_by_the_next_one() {
    let set = replica_set(3).await;
    set.nodes()[0].script().on("find", Step::hang());
    let running = tokio::spawn(answer(several(&set.uri(), [find()])));
    set.nodes()[0].until_seen("find", 1).await;
    set.kill(0).await;
    set.elect(Some(2));
    let answer = running.await.unwrap();
    assert_mended(&answer);
    assert_eq!(answer["reasons"], json!(["MONGODB_NETWORK_ERROR"]));
    let addresses = [0, 2].map(|index| set.nodes()[index].address());
    assert_eq!(each(&answer, "backend"), addresses);
}
