//! The official MongoDB driver below the stack, against a scripted node: how its errors are
//! classified, and that each attempt is one message.

use std::future::Future;

use mongodb::bson::{Document, doc};
use mongodb::options::InsertOneModel;
use mongodb::{Client, Collection, Cursor};
use reattempt::{Call, ClientError, Failure, RetryInfo, Stage};
use reattempt_mongodb::reasons::{
    MONGODB_CLIENT_ERROR, MONGODB_NETWORK_ERROR, MONGODB_NODE_IS_RECOVERING, MONGODB_SERVER_ERROR,
    MONGODB_SERVER_SELECTION_FAILED, MONGODB_SYSTEM_OVERLOADED,
};
use reattempt_mongodb::{
    FailureDetail, FailureKind, MongoClientLayer, MongoFailure, ReadCall, ReadOperation,
};
use reattempt_testbed::mongodb::{Node, Step};
use reattempt_tests::within;
use tower::{ServiceBuilder, ServiceExt};

type Found = Result<Cursor<Document>, ClientError<mongodb::error::Error>>;

#[derive(Clone, Debug)]
struct Find;

impl ReadCall for Find {
    fn operation(&self) -> ReadOperation {
        ReadOperation::Find
    }
}

async fn node() -> Node {
    let node = Node::start().await.expect("a node");
    let documents = (1..=3).map(|n| doc! { "_id": n });
    node.store()
        .insert("db", "c", documents)
        .expect("documents");
    node
}

/// The driver without its own retries; `more` is added to the connection string.
async fn collection(node: &Node, more: &str) -> Collection<Document> {
    let uri = format!(
        "mongodb://{}/?retryReads=false&retryWrites=false{more}",
        node.address()
    );
    let client = Client::with_uri_str(uri).await.expect("a client");
    client.database("db").collection("c")
}

async fn find(collection: &Collection<Document>) -> (Found, RetryInfo) {
    let collection = collection.clone();
    let service = ServiceBuilder::new()
        .layer(MongoClientLayer::current())
        .service_fn(move |_: Call<Find>| {
            let collection = collection.clone();
            async move { collection.find(doc! {}).await }
        });
    let mut call = Call::new(Find);
    let watch = RetryInfo::track(&mut call);
    let answer = within(service.oneshot(call)).await;
    (answer, watch.info())
}

fn failure(info: &RetryInfo) -> Failure {
    let failure = info.records().find_map(|record| record.failure);
    failure.expect("a failure")
}

/// The answer of a server that is too busy.
fn busy() -> Step {
    Step::error(462, "IngressRequestRateLimitExceeded")
        .label("SystemOverloadedError")
        .label("RetryableError")
}

async fn count(found: Found) -> usize {
    let mut cursor = found.expect("a cursor");
    let mut count = 0;
    while within(cursor.advance()).await.expect("a document") {
        count += 1;
    }
    count
}

/// M1, M3, M4
#[tokio::test]
async fn what_may_be_retried_is_sent_a_second_time() {
    for (step, reason) in [
        (Step::code(189), MONGODB_NODE_IS_RECOVERING),
        (Step::half_reply(), MONGODB_NETWORK_ERROR),
        (Step::close_before(), MONGODB_NETWORK_ERROR),
    ] {
        let node = node().await;
        let collection = collection(&node, "").await;
        node.script().on("find", step);
        let (found, info) = find(&collection).await;
        assert_eq!(
            (count(found).await, info.attempts(), info.count(reason)),
            (3, 2, 1)
        );
        assert_eq!(node.seen_named("find").len(), 2, "one message an attempt");
    }
}

/// M4, M8: the code decides, and is in the records.
#[tokio::test]
async fn another_error_is_the_callers() {
    let node = node().await;
    let collection = collection(&node, "").await;
    node.script().on("find", Step::code(50));
    let (refused, info) = find(&collection).await;
    assert!(refused.is_err());
    let failure = failure(&info);
    assert_eq!(
        (failure.reason, failure.code),
        (MONGODB_SERVER_ERROR, Some(50))
    );
    assert_eq!((failure.stage, info.attempts()), (Stage::Response, 1));
}

#[tokio::test]
async fn the_servers_labels_and_its_base_are_read() {
    let node = node().await;
    let collection = collection(&node, "").await;
    for base in [doc! { "ms": 5 }, doc! { "ms": 5_i64 }, doc! { "ms": 5.5 }] {
        let ms = base.get("ms").expect("a base").clone();
        node.script().on("find", busy().with("baseBackoffMS", ms));
        let (found, info) = find(&collection).await;
        assert_eq!((count(found).await, info.attempts()), (3, 2));
        let failure = failure(&info);
        assert_eq!(failure.reason, MONGODB_SYSTEM_OVERLOADED);
        let detail = FailureDetail::of(&failure);
        let base = detail.base_backoff.expect("a base").as_micros();
        assert!((5000..=5500).contains(&base), "{base}");
    }
}

/// A write of the driver through the stack: how many attempts it has.
async fn attempts<F>(operation: ReadOperation, write: impl Fn() -> F + Clone) -> u32
where
    F: Future<Output = Result<(), mongodb::error::Error>>,
{
    let service = ServiceBuilder::new()
        .layer(MongoClientLayer::current())
        .service_fn(move |_: Call<Asks>| write());
    let mut call = Call::new(Asks(operation));
    let watch = RetryInfo::track(&mut call);
    let outcome = within(service.oneshot(call)).await;
    assert!(outcome.is_err(), "the server was busy");
    watch.info().attempts()
}

#[derive(Clone, Debug)]
struct Asks(ReadOperation);

impl ReadCall for Asks {
    fn operation(&self) -> ReadOperation {
        self.0
    }
}

/// The server has the command when its monitor gets no answer: the driver clears the pool, and
/// interrupts the command.
#[tokio::test]
async fn a_write_that_the_monitor_interrupts_was_in_flight() {
    let node = node().await;
    let more = "&connectTimeoutMS=700&heartbeatFrequencyMS=500";
    let collection = collection(&node, more).await;
    node.script().on("insert", Step::hang());
    let insert = tokio::spawn(async move { collection.insert_one(doc! { "x": 1 }).await });
    within(node.until_seen("insert", 1)).await;
    node.script()
        .handler(|seen| (!seen.is_data()).then(Step::hang));
    let error = within(insert).await.expect("no panic");
    let error = error.expect_err("no answer");
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_eq!(error.kind(), FailureKind::network_in_flight());
}

/// A write of two commands, of which the server executes the first and is too busy for the second.
#[tokio::test]
async fn a_write_of_several_commands_is_not_sent_again() {
    let builder = Node::builder().max_wire_version(25).message_limit(40_000);
    let node = builder.start().await.expect("a node");
    let collection = collection(&node, "").await;
    let large = || doc! { "text": "x".repeat(15_000) };
    let done = doc! {
        "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [] }, "nErrors": 0,
        "nInserted": 1, "nMatched": 0, "nModified": 0, "nUpserted": 0, "nDeleted": 0,
    };
    node.script()
        .on("bulkWrite", Step::ok(done))
        .on("bulkWrite", busy());
    let of_bulk = collection.clone();
    let bulk = move || {
        let models = [large(), large(), large()].map(|document| {
            let model = InsertOneModel::builder().namespace(of_bulk.namespace());
            model.document(document).build()
        });
        let client = of_bulk.client().clone();
        async move { client.bulk_write(models).await.map(drop) }
    };
    // The driver says that a part was written.
    assert_eq!(attempts(ReadOperation::Write, bulk).await, 1);
    assert_eq!(node.seen_named("bulkWrite").len(), 2, "two commands");

    node.script()
        .on("insert", Step::pass())
        .on("insert", busy());
    let inserts = move || {
        let collection = collection.clone();
        async move {
            let documents = [large(), large(), large()];
            collection.insert_many(documents).await.map(drop)
        }
    };
    // It does not say it.
    assert_eq!(attempts(ReadOperation::SeveralWrites, inserts).await, 1);
    assert_eq!(node.seen_named("insert").len(), 2, "two commands");
}

/// M13
#[tokio::test]
async fn a_failed_selection_is_the_callers() {
    let gone = {
        let node = node().await;
        format!("mongodb://{}", node.address())
    };
    let uri = format!("{gone}/?retryReads=false&serverSelectionTimeoutMS=100");
    let client = Client::with_uri_str(uri).await.expect("a client");
    let (refused, info) = find(&client.database("db").collection("c")).await;
    assert!(refused.is_err());
    let failure = failure(&info);
    assert_eq!(failure.reason, MONGODB_SERVER_SELECTION_FAILED);
    assert_eq!((failure.stage, info.attempts()), (Stage::Dispatch, 1));
}

/// M6: rejected authentication is final; authentication interrupted by a server's shutdown is not.
#[tokio::test]
async fn a_refused_login_is_final_and_an_interrupted_one_is_retried() {
    let node = Node::builder()
        .user("user", "secret")
        .expect("a user")
        .start()
        .await
        .expect("a node");
    let client = |password: &str| {
        let uri = format!(
            "mongodb://user:{password}@{}/?retryReads=false&authMechanism=SCRAM-SHA-256",
            node.address()
        );
        async { Client::with_uri_str(uri).await.expect("a client") }
    };
    let (refused, info) = find(&client("wrong").await.database("db").collection("c")).await;
    assert!(refused.is_err());
    assert_eq!(info.attempts(), 1);

    node.script().on("saslContinue", Step::code(91));
    let (found, info) = find(&client("secret").await.database("db").collection("c")).await;
    assert_eq!((count(found).await, info.attempts()), (0, 2));
    let failure = failure(&info);
    assert_eq!(
        (failure.reason, failure.stage),
        (MONGODB_NODE_IS_RECOVERING, Stage::Dispatch)
    );
}

/// E5: a reply that the driver cannot parse is final.
#[tokio::test]
async fn a_reply_that_is_no_reply_is_final() {
    let node = node().await;
    let collection = collection(&node, "").await;
    node.script()
        .on("find", Step::ok(doc! { "cursor": "none" }));
    let (refused, info) = find(&collection).await;
    assert!(refused.is_err());
    let failure = failure(&info);
    assert_eq!((failure.reason, info.attempts()), (MONGODB_CLIENT_ERROR, 1));
}

/// M35: with the driver's own retries, two attempts become up to four; so they are switched off.
#[tokio::test]
async fn with_the_drivers_own_retry_on_the_two_multiply() {
    let node = node().await;
    let uri = format!("mongodb://{}/?retryReads=true", node.address());
    let client = Client::with_uri_str(uri).await.expect("a client");
    for _ in 0..4 {
        node.script().on("find", Step::code(189));
    }
    let (refused, info) = find(&client.database("db").collection("c")).await;
    assert!(refused.is_err());
    assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 4));
}
