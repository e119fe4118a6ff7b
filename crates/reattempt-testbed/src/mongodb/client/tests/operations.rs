use bson::{Bson, Timestamp, doc};
use tower_service::Service as _;

use super::{find, node, options, send, set_options, soon};
use crate::mongodb::client::{
    Client, MongoError, MongoRequest, Operation, Otherwise, ReadPreference, drain,
};
use crate::mongodb::{Node, ReplicaSet, Step};

#[tokio::test]
async fn every_operation_of_the_contract_is_answered() {
    let set = ReplicaSet::start(1).await.unwrap();
    super::fill(set.store().unwrap());
    let client = Client::new(set_options(&set));
    let expected = [
        (Operation::Find, 3),
        (Operation::FindOne, 1),
        (Operation::FindBatch, 2),
        (Operation::Aggregate, 3),
        (Operation::AggregateOut, 0),
        (Operation::AggregateMerge, 0),
        (Operation::Count, 3),
        (Operation::CountDocuments, 1),
        (Operation::Distinct, 3),
        (Operation::ListDatabases, 1),
        (Operation::ListCollections, 2),
        (Operation::ListIndexes, 1),
        (Operation::Watch, 0),
        (Operation::MapReduce, 1),
        (Operation::RunCommandFind, 3),
        (Operation::InsertOne, 1),
        (Operation::TxnFind, 4),
        (Operation::RunCommand, 0),
    ];
    for (operation, count) in expected {
        let reply = send(&client, &MongoRequest::of(operation, "db", "c", doc! {})).await;
        assert_eq!(reply.unwrap().count(), count, "{}", operation.name());
        assert_eq!(Operation::from_name(operation.name()), Some(operation));
    }
    assert_eq!(set.store().unwrap().documents("db", "c_out").len(), 3);
    let transaction = set.nodes()[0].seen_named("find").pop().unwrap().document;
    assert_eq!(transaction.get_bool("startTransaction"), Ok(true));
    assert_eq!(transaction.get_bool("autocommit"), Ok(false));
}

#[tokio::test]
async fn filters_and_options_reach_the_server() {
    let node = node().await;
    let client = Client::new(options(&node));
    let request = MongoRequest::of(
        Operation::Find,
        "db",
        "c",
        doc! { "filter": { "x": { "$gte": 2 } }, "sort": { "x": -1 }, "limit": 1 },
    );
    let reply = send(&client, &request).await.unwrap();
    assert!(
        reply
            .values()
            .eq([Ok(Bson::Document(doc! { "_id": 3, "x": 3 }))])
    );
    let counted = doc! { "pipeline": [
        { "$match": { "x": { "$lt": 3 } } },
        { "$group": { "_id": 1, "n": { "$sum": 1 } } },
    ] };
    let request = MongoRequest::of(Operation::CountDocuments, "db", "c", counted);
    let reply = send(&client, &request).await.unwrap();
    assert!(
        reply
            .values()
            .eq([Ok(Bson::Document(doc! { "_id": 1, "n": 2 }))])
    );
}

/// M19: a cursor is read from the server and in the session that opened it.
#[tokio::test]
async fn a_cursor_is_read_to_its_end_where_it_was_opened() {
    let set = ReplicaSet::start(2).await.unwrap();
    set.store()
        .unwrap()
        .insert("db", "c", (1..=5).map(|n| doc! { "_id": n }))
        .unwrap();
    let mut client = Client::new(set_options(&set));
    let mut request = MongoRequest::of(Operation::FindBatch, "db", "c", doc! {});
    request.read_preference = Some(ReadPreference::Secondary);
    let first = send(&client, &request).await.unwrap();
    assert_eq!(first.server, set.nodes()[1].address());
    let drained = soon(drain(&mut client, &request, first)).await.unwrap();
    assert_eq!(
        (drained.documents, drained.batches, drained.stopped_at),
        (5, 3, None)
    );
    let opened = &set.nodes()[1].seen_named("find")[0].document;
    let more = set.nodes()[1].seen_named("getMore");
    assert_eq!(more.len(), 2);
    assert!(
        more.iter()
            .all(|m| m.document.get("lsid") == opened.get("lsid"))
    );
    assert!(set.nodes()[0].seen_named("getMore").is_empty());
}

/// M24, M25, M26: the same request sent again is a new message in the same session, with the
/// latest times.
#[tokio::test]
async fn a_request_sent_again_is_a_new_message_in_the_same_session() {
    let node = node().await;
    let client = Client::new(options(&node));
    let early = Timestamp {
        time: 1,
        increment: 1,
    };
    let mut request = find();
    request
        .command
        .insert("readConcern", doc! { "afterClusterTime": early });
    node.script().on("find", Step::code(11602));
    send(&client, &request).await.unwrap_err();
    // Another operation moves the cluster's time on.
    send(&client, &find()).await.unwrap();
    send(&client, &request).await.unwrap();
    let seen = node.seen_named("find");
    let (first, last) = (&seen[0], &seen[2]);
    assert_ne!(first.request_id, last.request_id);
    assert_eq!(first.document.get("lsid"), last.document.get("lsid"));
    assert_ne!(first.document.get("lsid"), seen[1].document.get("lsid"));
    let cluster_time = |command: &bson::Document| {
        command
            .get_document("$clusterTime")
            .unwrap()
            .get_timestamp("clusterTime")
            .unwrap()
    };
    assert!(first.document.get("$clusterTime").is_none());
    assert!(cluster_time(&last.document) > cluster_time(&seen[1].document));
    let after = |command: &bson::Document| {
        command
            .get_document("readConcern")
            .unwrap()
            .get_timestamp("afterClusterTime")
            .unwrap()
    };
    assert_eq!(after(&first.document), early);
    assert!(
        after(&last.document) > early,
        "the error's operationTime counts"
    );
}

/// M12, M23, M24: a command is written for the server that gets it, or not sent.
#[tokio::test]
async fn a_server_that_is_too_old_gets_what_it_knows_or_nothing() {
    let node = Node::builder().max_wire_version(5).start().await.unwrap();
    let client = Client::new(options(&node));
    let mut request = find();
    request
        .command
        .extend(doc! { "comment": "x", "hint": "_id_" });
    let omitted = request.clone().field_needs("comment", 9, Otherwise::Omit);
    send(&client, &omitted).await.unwrap();
    let sent = &node.seen_named("find")[0].document;
    assert!(!sent.contains_key("comment") && sent.contains_key("hint"));
    assert!(
        !sent.contains_key("lsid"),
        "sessions came with wire version 6"
    );
    let mut unsupported = find();
    unsupported.requires_wire_version = Some(6);
    for refused in [
        request.field_needs("hint", 9, Otherwise::Refuse),
        unsupported,
    ] {
        let error = send(&client, &refused).await.unwrap_err();
        assert!(matches!(error, MongoError::Rebuild { .. }), "{error}");
        assert_eq!(
            (error.was_sent(), error.max_wire_version()),
            (false, Some(5))
        );
    }
    assert_eq!(node.seen_named("find").len(), 1);
}

#[tokio::test]
async fn a_member_asked_directly_answers_though_it_is_a_secondary() {
    let set = ReplicaSet::start(2).await.unwrap();
    let mut options = options(&set.nodes()[1]);
    options.direct_connection = true;
    let mut client = Client::new(options);
    send(&client, &find()).await.unwrap();
    let insert = MongoRequest::insert_one("db", "c", doc! {});
    let error = soon(client.call(insert)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.code_name()),
        (Some(10107), Some("NotWritablePrimary"))
    );
}

/// M19: the number of a cursor is one of 64 bits, and a batch need not name its collection again.
#[tokio::test]
async fn a_get_more_names_its_cursor_to_the_last_bit() {
    let node = node().await;
    let mut client = Client::new(options(&node));
    let id = 0x7123_4567_89ab_cdef_i64;
    let first = doc! { "id": id, "ns": "db.a.b", "firstBatch": [{}] };
    let next = doc! { "id": id, "nextBatch": [{}] };
    let last = doc! { "id": 0_i64, "nextBatch": [{}] };
    node.script().on("find", Step::ok(doc! { "cursor": first }));
    for cursor in [next, last] {
        let step = Step::ok(doc! { "cursor": cursor });
        node.script().on("getMore", step);
    }
    let first = send(&client, &find()).await.unwrap();
    let drained = soon(drain(&mut client, &find(), first)).await.unwrap();
    assert_eq!((drained.documents, drained.batches), (3, 3));
    for more in node.seen_named("getMore") {
        assert_eq!(more.document.get_i64("getMore"), Ok(id));
        assert_eq!(more.document.get_str("collection"), Ok("a.b"));
    }
}
