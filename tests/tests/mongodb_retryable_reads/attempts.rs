//! The second attempt: another selection, another message, the same session (M20, M21, M25, M26,
//! M31).

use super::*;
use reattempt_mongodb::reasons::MONGODB_NOT_WRITABLE_PRIMARY;
use reattempt_testbed::mongodb::client::{CommandEvent, EventKind};
use reattempt_testbed::mongodb::node::SeenCommand;
use std::sync::Arc;
use std::sync::Mutex;

/// M20, M21: the topology is updated first, and the retry goes to the new primary.
#[tokio::test]
async fn the_retry_goes_to_the_new_primary() {
    let set = replica_set().await;
    let client = Client::new(of_set(&set));
    let (warm, _) = call(&client, find()).await;
    let old = warm.expect("a reply").server;
    let primary = set.primary().expect("a primary");
    set.elect(Some((primary + 1) % 3));
    let (reply, info) = call(&client, find()).await;
    let new = reply.expect("a reply").server;
    assert_ne!(old, new);
    assert_eq!(new, set.nodes()[(primary + 1) % 3].address());
    assert_eq!(
        (info.attempts(), info.count(MONGODB_NOT_WRITABLE_PRIMARY)),
        (2, 1)
    );
}

fn text(command: &SeenCommand, field: &str) -> String {
    let value = command.document.get(field);
    value.expect("the field").to_string()
}

/// M25, M26: a new message in the same session.
#[tokio::test]
async fn the_retry_is_a_new_message_in_the_same_session() {
    let set = replica_set().await;
    let client = Client::new(of_set(&set));
    let (warm, _) = call(&client, find()).await;
    warm.expect("a reply");
    let primary = &set.nodes()[set.primary().expect("a primary")];
    primary.script().on("find", Step::code(6));
    let (reply, _) = call(&client, find()).await;
    reply.expect("a reply");
    let seen = primary.seen_named("find");
    let [_, first, second] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_ne!(first.request_id, second.request_id);
    assert_eq!(text(first, "lsid"), text(second, "lsid"));
    let time = |command: &SeenCommand| {
        let time = command
            .document
            .get_document("$clusterTime")
            .expect("a cluster time");
        time.get_timestamp("clusterTime").expect("a timestamp")
    };
    assert!(time(second) >= time(first));
}

/// E1: the failed attempt has released its connection when the next one needs it.
#[tokio::test]
async fn a_pool_of_one_connection_does_not_lock_up() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let client = Client::new(options);
    for step in [Step::code(6), Step::close_before(), Step::code(7)] {
        node.script().on("find", step);
        let (reply, info) = call(&client, find()).await;
        assert_eq!((reply.expect("a reply").count(), info.attempts()), (3, 2));
    }
}

/// M31: each attempt has a start event and an end event, with one operation id.
#[tokio::test]
async fn events_come_in_pairs() {
    let node = node().await;
    let heard: Arc<Mutex<Vec<CommandEvent>>> = Arc::default();
    let ear = Arc::clone(&heard);
    let client = Client::new(options(&node))
        .on_event(move |event| ear.lock().expect("no test panics here").push(event));
    node.script().on("find", Step::code(189));
    let request = find();
    let operation = request.operation_id;
    call(&client, request).await.0.expect("a reply");
    let heard = heard.lock().expect("no test panics here").clone();
    let kinds: Vec<EventKind> = heard.iter().map(|event| event.kind).collect();
    use EventKind::{Failed, Started, Succeeded};
    assert_eq!(kinds, [Started, Failed, Started, Succeeded]);
    assert!(heard.iter().all(|event| event.operation_id == operation));
    let ids: Vec<i32> = heard.iter().map(|event| event.request_id).collect();
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_ne!(ids[0], ids[2]);
}
