//! MongoDB Retryable Reads on the wire: the stack around the testbed's client. Rule numbers are
//! those of docs/conformance/mongodb.md.

mod attempts;
mod current;
mod documentation;
mod errors;
mod operations;
mod replies;

use std::future::Future;
use std::time::Duration;

use bson::{Document, doc};
use reattempt::{Call, RetryInfo, RetryLayer, RouteLayer, UncallLayer};
use reattempt_mongodb::{Deprioritized, MongoClassifier, RetryReads, RetryableReads};
use reattempt_testbed::mongodb::client::{
    Client, ClientOptions, MongoError, MongoReply, MongoRequest,
};
use reattempt_testbed::mongodb::node::Store;
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
        .map_request(mongodb::prepare(client, Deprioritized::seed_2022()))
        .layer(UncallLayer::new())
        .service(client.clone());
    let mut call = Call::new(request);
    let watch = RetryInfo::track(&mut call);
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
