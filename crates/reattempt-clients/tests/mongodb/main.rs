//! The client against scripted nodes and replica sets.

mod discovery;
mod failures;
mod login;
mod operations;
mod pool;

use std::future::Future;
use std::time::Duration;

use bson::{Document, doc};
use tower_service::Service as _;

use reattempt_clients::mongodb::client::{
    Client, ClientOptions, MongoError, MongoReply, MongoRequest,
};
use reattempt_testbed::mongodb::{Node, ReplicaSet};

/// Far longer than any of these tests takes.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("waited in vain")
}

async fn send(client: &Client, request: &MongoRequest) -> Result<MongoReply, MongoError> {
    let mut client = client.clone();
    soon(client.call(request.clone())).await
}

fn options(node: &Node) -> ClientOptions {
    let mut options = ClientOptions::new([node.address()]);
    options.server_selection_timeout = Duration::from_secs(10);
    options
}

fn set_options(set: &ReplicaSet) -> ClientOptions {
    let mut options = ClientOptions::new(set.nodes().iter().map(Node::address));
    options.replica_set = Some(ReplicaSet::NAME.to_owned());
    options.server_selection_timeout = Duration::from_secs(10);
    options
}

/// A standalone with three documents in `db.c`.
async fn node() -> Node {
    let node = Node::start().await.unwrap();
    fill(node.store());
    node
}

fn fill(store: &reattempt_testbed::mongodb::node::Store) {
    store
        .insert("db", "c", (1..=3).map(|n| doc! { "_id": n, "x": n }))
        .unwrap();
}

fn find() -> MongoRequest {
    MongoRequest::find("db", "c", Document::new())
}
