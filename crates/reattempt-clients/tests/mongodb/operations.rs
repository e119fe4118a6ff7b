use bson::doc;
use reattempt_clients::mongodb::client::{Client, MongoError};
use reattempt_testbed::mongodb::Node;

use super::{find, options, send};

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
