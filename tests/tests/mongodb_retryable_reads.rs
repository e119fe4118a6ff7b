//! MongoDB Retryable Reads on the wire: the stack around the testbed's client. Rule numbers as in docs/conformance/mongodb.md.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use reattempt::{Call, CallContext, RetryInfo, RetryLayer, RouteLayer, UncallLayer};
use reattempt_mongodb::reasons::{MONGODB_NOT_WRITABLE_PRIMARY, MONGODB_POOL_CLEARED};
use reattempt_mongodb::{MongoClassifier, RetryReads, RetryableReads};
use reattempt_testbed::mongodb::client::{
    Client, ClientOptions, CommandEvent, EventKind, MongoError, MongoReply, MongoRequest, Operation,
};
use reattempt_testbed::mongodb::node::{SeenCommand, Store};
use reattempt_testbed::mongodb::{self, Node, ReplicaSet, Step};
use reattempt_testbed::report::ReportLayer;
use tower::{ServiceBuilder, ServiceExt};

/// Fails instead of hanging.
async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("it hangs")
}

type Outcome = Result<MongoReply, MongoError>;

/// One operation through the stack, with `retryReads` on or off.
async fn call_with(
    gate: RetryReads,
    client: &Client,
    request: MongoRequest,
) -> (Outcome, RetryInfo) {
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(gate))
        .layer(RetryLayer::new(
            MongoClassifier::seed_2022(),
            RetryableReads::seed_2022(),
        ))
        .layer(ReportLayer::new(mongodb::report))
        .layer(UncallLayer::new())
        .service(client.clone());
    let mut call = Call::new(request);
    let watch = CallContext::watch(&mut call);
    let outcome = within(service.oneshot(call)).await;
    (outcome, watch.info())
}

async fn call(client: &Client, request: MongoRequest) -> (Outcome, RetryInfo) {
    call_with(RetryReads::default(), client, request).await
}

fn fill(store: &Store) {
    store
        .insert("db", "c", (1..=3).map(|n| doc! { "_id": n, "x": n }))
        .expect("documents");
}

/// A standalone with three documents.
async fn node() -> Node {
    let node = Node::start().await.expect("a node");
    fill(node.store());
    node
}

/// A set of three with three documents.
async fn replica_set() -> ReplicaSet {
    let set = ReplicaSet::start(3).await.expect("a set");
    fill(set.store().expect("a store"));
    set
}

fn options(node: &Node) -> ClientOptions {
    ClientOptions::new([node.address()])
}

fn of_set(set: &ReplicaSet) -> ClientOptions {
    let mut options = ClientOptions::new(set.nodes().iter().map(Node::address));
    options.replica_set = Some(ReplicaSet::NAME.to_owned());
    options
}

fn find() -> MongoRequest {
    MongoRequest::find("db", "c", Document::new())
}

/// M1, M2, M3, M4, M15
#[tokio::test]
async fn a_read_that_may_be_mended_is_sent_a_second_time_at_once() {
    for step in [
        Step::code(10107),
        Step::code(91),
        Step::code(11600),
        Step::close_before(),
        Step::half_reply(),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script().on("find", step);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect("a reply").count(), 3);
        let delays: Vec<_> = info.records().filter_map(|record| record.delay).collect();
        assert_eq!((info.attempts(), delays), (2, vec![Duration::ZERO]));
        assert_eq!(node.seen_named("find").len(), 2);
    }
}

/// M3: a server that says nothing within the socket's time.
#[tokio::test]
async fn a_socket_timeout_is_a_network_error() {
    let node = node().await;
    let mut options = options(&node);
    options.socket_timeout = Some(Duration::from_millis(200));
    let client = Client::new(options);
    node.script().on("find", Step::hang());
    let (reply, _) = call(&client, find()).await;
    assert_eq!(reply.expect("a reply").count(), 3);
    assert_eq!(node.seen_named("find").len(), 2);
}

/// M8, M4: by number, and by no text; without a number it is final.
#[tokio::test]
async fn another_error_is_the_callers() {
    for step in [
        Step::code(50),
        Step::code(11601),
        Step::code(43),
        Step::code(134),
        Step::code(262),
        Step::code(10107).without("code"),
        Step::error(50, "NotWritablePrimary"),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script().on("find", step);
        let (reply, info) = call(&client, find()).await;
        assert!(matches!(reply, Err(MongoError::Server(_))), "{reply:?}");
        assert_eq!((info.attempts(), node.seen_named("find").len()), (1, 1));
    }
}

/// M5: one call's broken connection clears the pool in which the other waits; both are sent again.
#[tokio::test]
async fn a_cleared_pool_is_retried() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let client = Client::new(options);
    let (warm, _) = call(&client, find()).await;
    warm.expect("a connection in the pool");
    node.script().on(
        "find",
        Step::close_before().after(Duration::from_millis(300)),
    );
    let second = async {
        node.until_seen("find", 2).await;
        call(&client, find()).await
    };
    let ((first, _), (second, info)) =
        within(async { tokio::join!(call(&client, find()), second) }).await;
    assert_eq!(first.expect("a reply").count(), 3);
    assert_eq!(second.expect("a reply").count(), 3);
    assert_eq!(info.count(MONGODB_POOL_CLEARED), 1);
    // The one for the pool, the broken one and its retry, and the retry of the one that was never sent.
    assert_eq!(node.seen_named("find").len(), 4);
}

/// M6: a connection that breaks, or is refused, while it is made.
#[tokio::test]
async fn a_failure_in_the_handshake_is_retried() {
    for step in [Step::close_before(), Step::code(91)] {
        let node = node().await;
        let client = Client::new(options(&node));
        // The monitor has its connection already.
        node.until_seen("hello", 1).await;
        node.script().when(|command| command.ordinal == 0, step);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect("a reply").count(), 3);
        assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 1));
    }
}

/// M20, M21: the topology learns of it first, and the retry goes to whoever is primary then.
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

/// M28: the server has answered a second time.
#[tokio::test]
async fn a_second_failure_of_the_servers_is_the_callers() {
    for (second, code) in [
        (Step::code(91), Some(91)),
        (Step::code(50), Some(50)),
        (Step::close_before(), None),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script()
            .on("find", Step::code(10107))
            .on("find", second);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect_err("a failure").code(), code);
        assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 2));
    }
}

/// M22, M24: a second attempt that found no server says nothing that the first has not said better.
#[tokio::test]
async fn a_second_failure_that_was_never_sent_raises_the_original() {
    let set = replica_set().await;
    let mut options = of_set(&set);
    options.server_selection_timeout = Duration::from_millis(500);
    let client = Client::new(options);
    let (warm, _) = call(&client, find()).await;
    warm.expect("a reply");
    // The old primary refuses, and nobody is elected.
    set.elect(None);
    let (reply, info) = call(&client, find()).await;
    let error = reply.expect_err("a failure");
    assert!(
        [Some(10107), Some(13435), Some(13436)].contains(&error.code()),
        "{error}"
    );
    assert_eq!(info.attempts(), 2);
}

/// M29: nor one that died while its connection was made.
#[tokio::test]
async fn a_second_failure_in_the_handshake_raises_the_original() {
    let node = node().await;
    let client = Client::new(options(&node));
    let (warm, _) = call(&client, find()).await;
    warm.expect("a reply");
    node.script().on("find", Step::half_reply());
    // The pool's next connection: the monitor keeps its own.
    node.script()
        .when(|command| command.ordinal == 0, Step::code(91));
    let (reply, info) = call(&client, find()).await;
    let error = reply.expect_err("a failure");
    assert!(
        matches!(error, MongoError::Network { .. }) && error.was_sent(),
        "{error}"
    );
    assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 2));
}

/// M13: no server, no attempt, no retry.
#[tokio::test]
async fn a_first_selection_that_fails_is_the_callers() {
    let set = replica_set().await;
    set.elect(None);
    let mut options = of_set(&set);
    options.server_selection_timeout = Duration::from_millis(300);
    let client = Client::new(options);
    let (reply, info) = call(&client, find()).await;
    assert!(
        matches!(reply, Err(MongoError::Selection { .. })),
        "{reply:?}"
    );
    assert_eq!(info.attempts(), 1);
}

fn text(command: &SeenCommand, field: &str) -> String {
    let value = command.document.get(field);
    value.expect("the field").to_string()
}

/// M25, M26: written anew, in the same session.
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

/// E1: the failed attempt holds no connection while the next one waits for it.
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

/// M31: each attempt has its start and its end, under one operation.
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

/// M19: a cursor that was lost cannot be read on.
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

/// M12, M14: a server that is too old gets the command, once.
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
