//! Which operations are retried (M9, M12, M14, M16, M19).

use super::*;
use reattempt_testbed::mongodb::client::Operation;
use std::sync::Arc;

/// M16
#[tokio::test]
async fn every_read_operation_is_retried() {
    use Operation::*;
    for operation in [
        Find,
        FindOne,
        Aggregate,
        Count,
        CountDocuments,
        Distinct,
        ListDatabases,
        ListCollections,
        ListIndexes,
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        let request = MongoRequest::of(operation, "db", "c", Document::new());
        let command = request.command_name().to_owned();
        node.script().on(&command, Step::code(91));
        let (reply, info) = call(&client, request).await;
        assert!(reply.is_ok(), "{operation:?}: {reply:?}");
        assert_eq!(
            (info.attempts(), node.seen_named(&command).len()),
            (2, 2),
            "{operation:?}"
        );
    }
}

/// M19, and writes; M14: in a transaction.
#[tokio::test]
async fn what_is_no_retryable_read_is_sent_once() {
    use Operation::*;
    for operation in [
        MapReduce,
        AggregateOut,
        AggregateMerge,
        RunCommandFind,
        InsertOne,
        TxnFind,
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        let request = MongoRequest::of(operation, "db", "c", Document::new());
        let command = request.command_name().to_owned();
        node.script().on(&command, Step::code(91));
        let (reply, info) = call(&client, request).await;
        assert_eq!(
            reply.expect_err("a failure").code(),
            Some(91),
            "{operation:?}"
        );
        assert_eq!(
            (info.attempts(), node.seen_named(&command).len()),
            (1, 1),
            "{operation:?}"
        );
    }
}

/// M19: a lost cursor cannot be continued.
#[tokio::test]
async fn get_more_is_sent_once() {
    let node = node().await;
    let client = Client::new(options(&node));
    let request = MongoRequest::of(Operation::FindBatch, "db", "c", Document::new());
    let (first, _) = call(&client, request.clone()).await;
    let first = first.expect("a reply");
    let cursor = first.cursor_id().expect("an open cursor");
    node.script().on("getMore", Step::close_before());
    let mut more = MongoRequest::new(
        Operation::GetMore,
        "db",
        doc! { "getMore": cursor, "collection": "c" },
    );
    more.session = Arc::clone(&request.session);
    more.pinned = Some(first.server);
    let (reply, info) = call(&client, more).await;
    assert!(
        matches!(reply, Err(MongoError::Network { .. })),
        "{reply:?}"
    );
    assert_eq!((info.attempts(), node.seen_named("getMore").len()), (1, 1));
}

/// M9, M14
#[tokio::test]
async fn switched_off_a_read_is_sent_once() {
    let node = node().await;
    let client = Client::new(options(&node));
    node.script().on("find", Step::code(91));
    let (reply, info) = call_with(RetryReads::new(false), &client, find()).await;
    assert_eq!(reply.expect_err("a failure").code(), Some(91));
    assert_eq!((info.attempts(), node.seen_named("find").len()), (1, 1));
}

/// M12, M14: a server that is too old gets the command once.
#[tokio::test]
async fn a_server_that_is_too_old_is_asked_once() {
    let node = Node::builder()
        .max_wire_version(5)
        .start()
        .await
        .expect("a node");
    fill(node.store());
    let client = Client::new(options(&node));
    node.script().on("find", Step::code(91));
    let (reply, info) = call(&client, find()).await;
    assert_eq!(reply.expect_err("a failure").code(), Some(91));
    assert_eq!((info.attempts(), node.seen_named("find").len()), (1, 1));
}
