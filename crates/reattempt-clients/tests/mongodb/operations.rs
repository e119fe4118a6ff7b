use std::sync::{Arc, Mutex};

use bson::doc;
use reattempt_clients::mongodb::client::{Client, MongoError};
use reattempt_clients::mongodb::wire::PROTOCOL_LIMIT;
use reattempt_mongodb::{FailureKind, MongoFailure};
use reattempt_testbed::mongodb::Node;

use super::{find, node, options, send};

/// M12, M23, M24: a command is written for the server that gets it, or not sent.
#[tokio::test]
async fn a_server_that_is_too_old_gets_what_it_knows_or_nothing() {
    let node = Node::builder().max_wire_version(4).start().await.unwrap();
    let client = Client::new(options(&node));
    let mut known = find();
    known
        .command
        .extend(doc! { "readConcern": { "level": "local" }, "hint": "_id_" });
    send(&client, &known).await.unwrap();
    let sent = &node.seen_named("find")[0].document;
    assert!(sent.contains_key("readConcern") && sent.contains_key("hint"));
    assert!(
        !sent.contains_key("lsid"),
        "sessions came with wire version 6"
    );
    let mut collated = find();
    collated
        .command
        .insert("collation", doc! { "locale": "de" });
    let mut unsupported = find();
    unsupported.requires_wire_version = Some(6);
    let mut transaction = find();
    transaction.in_transaction = true;
    for refused in [collated, unsupported, transaction] {
        let error = send(&client, &refused).await.unwrap_err();
        assert!(matches!(error, MongoError::Rebuild { .. }), "{error}");
        assert_eq!(
            (error.was_sent(), error.max_wire_version()),
            (false, Some(4))
        );
    }
    assert_eq!(node.seen_named("find").len(), 1);
}

/// M31: it is the caller's, says nothing of the server, and has no events.
#[tokio::test]
async fn a_command_that_cannot_be_encoded_is_none() {
    let node = node().await;
    let events: Arc<Mutex<Vec<_>>> = Arc::default();
    let heard = Arc::clone(&events);
    let client = Client::new(options(&node))
        .on_event(move |event| heard.lock().unwrap().push((event.kind, event.connection)));
    send(&client, &find()).await.unwrap();
    let connection = events.lock().unwrap()[0].1;
    events.lock().unwrap().clear();
    let (mut nul, mut long) = (find(), find());
    nul.command.insert("a\0b", 1);
    long.command.insert("comment", "x".repeat(PROTOCOL_LIMIT));
    for impossible in [nul, long] {
        let error = send(&client, &impossible).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Invalid, "{error}");
        assert_eq!(error.server(), Some(node.address()));
        assert!(!error.was_sent() && events.lock().unwrap().is_empty());
    }
    assert_eq!(node.seen_named("find").len(), 1);
    let reply = send(&client, &find()).await.unwrap();
    assert_eq!(reply.connection_id, connection, "it is still sound");
}
