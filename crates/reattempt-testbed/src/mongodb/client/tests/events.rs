use std::sync::{Arc, Mutex};

use tower_service::Service as _;

use super::{find, node, options, send};
use crate::mongodb::Step;
use crate::mongodb::client::{Client, CommandEvent, EventKind};
use crate::mongodb::lock;

type Heard = Arc<Mutex<Vec<CommandEvent>>>;

fn listening(client: Client) -> (Client, Heard) {
    let heard = Heard::default();
    let ear = Arc::clone(&heard);
    (client.on_event(move |event| lock(&ear).push(event)), heard)
}

/// M31: one end for every start, in order, with the same operation id for all attempts.
#[tokio::test]
async fn every_start_has_one_end() {
    let node = node().await;
    let (client, heard) = listening(Client::new(options(&node)));
    let request = find();
    for step in [Step::close_before(), Step::code(6), Step::half_reply()] {
        node.script().on("find", step);
        send(&client, &request).await.unwrap_err();
    }
    send(&client, &request).await.unwrap();
    let heard = lock(&heard).clone();
    let kinds: Vec<EventKind> = heard.iter().map(|event| event.kind).collect();
    let (started, failed) = (EventKind::Started, EventKind::Failed);
    let succeeded = EventKind::Succeeded;
    assert_eq!(
        kinds,
        [
            started, failed, started, failed, started, failed, started, succeeded
        ]
    );
    for pair in heard.chunks(2) {
        assert_eq!(pair[0].request_id, pair[1].request_id);
        assert_eq!(pair[0].connection, pair[1].connection);
        assert_eq!(
            (pair[0].operation_id, &*pair[0].command),
            (request.operation_id, "find")
        );
    }
    assert_ne!(heard[0].request_id, heard[2].request_id);
    let seen: Vec<i32> = node
        .seen_named("find")
        .iter()
        .map(|find| find.request_id)
        .collect();
    let told: Vec<i32> = heard.chunks(2).map(|pair| pair[0].request_id).collect();
    assert_eq!(seen, told);
}

/// M31, E4: a dropped call has failed.
#[tokio::test]
async fn a_dropped_call_has_failed() {
    let node = node().await;
    let (mut client, heard) = listening(Client::new(options(&node)));
    node.script().on("find", Step::hang());
    let call = client.call(find());
    tokio::select! {
        _ = call => panic!("answered"),
        _ = node.until_seen("find", 1) => {}
    }
    let kinds: Vec<&str> = lock(&heard).iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["started", "failed"]);
}

/// M31: a command that never reached a connection fires no event.
#[tokio::test]
async fn a_failed_selection_or_handshake_fires_nothing() {
    let node = node().await;
    let (client, heard) = listening(Client::new(options(&node)));
    node.until_seen("hello", 1).await;
    node.script()
        .when(|command| command.ordinal == 0, Step::close_before());
    send(&client, &find()).await.unwrap_err();
    node.stop().await;
    let mut request = find();
    request.deadline = Some(tokio::time::Instant::now());
    send(&client, &request).await.unwrap_err();
    assert!(lock(&heard).is_empty());
}
