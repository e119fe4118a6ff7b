//! What the layers require of a client: routing by the newest configuration, the ids of
//! collections; and what is left out of the retry list. Rule numbers are those of
//! docs/conformance/couchbase.md.

use std::time::Duration;

use reattempt::StopReason;
use reattempt::reason::{KV_COLLECTION_OUTDATED, KV_NOT_MY_VBUCKET, SOCKET_NOT_AVAILABLE};
use reattempt_clients::kv::client::KvRequest;
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_testbed::kv::{Cluster, Step};
use reattempt_tests::kv::{Client, Ended, data};
use tokio::task::JoinSet;

/// Enough time to reach the server, also on a busy machine.
const SHORT: Duration = Duration::from_millis(500);

/// A node with the collection `shop.carts`, and a client that does not know its id.
async fn with_collection() -> (Cluster, Client) {
    let cluster = Cluster::builder().collection("shop.carts", 0x81);
    let cluster = cluster.start_cluster(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    (cluster, client)
}

/// The collection has another id from now on.
fn recreate_collection(cluster: &Cluster) {
    cluster.node(0).set_collection("shop.carts", None);
    cluster.node(0).set_collection("shop.carts", Some(0x82));
}

async fn connects(client: &Client) {
    let first = client.call(KvRequest::noop()).await;
    assert_eq!(first.status(), Status::SUCCESS);
}

#[track_caller]
fn at_once(ended: &Ended, status: Status) {
    assert_eq!((ended.status(), ended.info.attempts()), (status, 1));
}

/// C33, C51: first the map in force; after a rejection by its node the fast-forward map, until
/// there is a new revision.
#[tokio::test]
async fn in_a_rebalance_a_rejected_vbucket_goes_to_its_new_node() {
    let cluster = Cluster::start(3).await.expect("a cluster");
    cluster.begin_rebalance(0, 1);
    let client = Client::of(&cluster);
    let key = cluster.key_of(0, "k").expect("a key");
    let set = |value: &'static str| client.call(KvRequest::set(key.clone(), value, 0, 0));
    assert_eq!(set("before").await.info.attempts(), 1);
    assert_eq!((data(&cluster, 0).len(), data(&cluster, 1).len()), (1, 0));
    // The vbuckets move before the configuration says so.
    cluster.hand_over();
    let moved = set("meanwhile").await;
    assert_eq!(moved.status(), Status::SUCCESS);
    assert_eq!(moved.reasons(), [KV_NOT_MY_VBUCKET]);
    assert_eq!(moved.info.attempts(), 2);
    assert_eq!((data(&cluster, 0).len(), data(&cluster, 1).len()), (2, 1));
    assert_eq!(set("again").await.info.attempts(), 1);
    assert_eq!((data(&cluster, 0).len(), data(&cluster, 1).len()), (2, 2));
    // Another vbucket of the same node is rejected independently.
    let other = cluster.vbucket_of(key.as_bytes());
    let other = (0..1000)
        .map(|n| format!("o{n}"))
        .find(|key| {
            let key = key.as_bytes();
            cluster.owner_of(key) == Some(0) && cluster.vbucket_of(key) != other
        })
        .expect("a key");
    let read = client.call(KvRequest::get(other)).await;
    assert_eq!(
        (read.status(), read.info.attempts()),
        (Status::KEY_ENOENT, 2)
    );
    // A cancelled rebalance: the new revision's map applies from the start.
    cluster.end_rebalance();
    cluster.move_vbuckets(1, 0);
    let back = set("after").await;
    assert_eq!(back.status(), Status::SUCCESS);
    let owner = cluster.node(0).addr().to_string();
    assert_eq!(back.outcome.expect("an answer").node(), owner);
}

/// C34: the id is looked up once, and precedes the key on the wire.
#[tokio::test]
async fn a_collection_is_found_by_its_name() {
    let (cluster, client) = with_collection().await;
    let request = |request: KvRequest| request.in_collection_named("shop.carts");
    for _ in 0..3 {
        let ended = client.call(request(KvRequest::set("k", "v", 0, 0))).await;
        at_once(&ended, Status::SUCCESS);
    }
    assert_eq!(client.collections.get("shop.carts"), Some(0x81));
    let seen = data(&cluster, 0);
    let opcodes: Vec<_> = seen.iter().map(|request| request.opcode).collect();
    let set = Opcode::SET;
    assert_eq!(opcodes, [Opcode::COLLECTIONS_GET_ID, set, set, set]);
    assert_eq!((seen[1].collection, &*seen[1].key), (Some(0x81), &b"k"[..]));
    // The default collection needs no lookup.
    let other = client.call(KvRequest::get("k")).await;
    assert_eq!(other.status(), Status::KEY_ENOENT);
    assert_eq!(data(&cluster, 0).len(), 5);
}

/// C34: after it is dropped and recreated it has another id, which the retry uses.
#[tokio::test]
async fn an_outdated_collection_id_is_looked_up_anew_before_the_retry() {
    let (cluster, client) = with_collection().await;
    let write = || KvRequest::append("k", "v").in_collection_named("shop.carts");
    assert_eq!(client.call(write()).await.status(), Status::NOT_STORED);
    recreate_collection(&cluster);
    let ended = client.call(write()).await;
    assert_eq!(ended.status(), Status::NOT_STORED);
    assert_eq!(ended.reasons(), [KV_COLLECTION_OUTDATED]);
    assert_eq!(ended.info.attempts(), 2);
    assert_eq!(client.collections.get("shop.carts"), Some(0x82));
}

/// C34: 0x88 is the final result of a lookup: there is no such collection.
#[tokio::test]
async fn a_collection_that_is_not_there_is_the_callers() {
    let (cluster, client) = with_collection().await;
    let get = |path: &'static str| client.call(KvRequest::get("k").in_collection_named(path));
    for (path, status) in [
        ("shop.other", Status::UNKNOWN_COLLECTION),
        ("other.carts", Status::UNKNOWN_SCOPE),
    ] {
        let ended = get(path).await;
        at_once(&ended, status);
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    }
    assert_eq!(get("shop.carts").await.status(), Status::KEY_ENOENT);
    // The collection is dropped: the first attempt uses the old id, the second gets the lookup's
    // result.
    cluster.node(0).set_collection("shop.carts", None);
    let ended = get("shop.carts").await;
    assert_eq!(ended.info.attempts(), 2);
    assert_eq!(ended.reasons(), [KV_COLLECTION_OUTDATED]);
}

/// C13, C34: when a lookup is lost, the write was not sent.
#[tokio::test]
async fn a_write_whose_lookup_was_lost_is_sent() {
    let (cluster, client) = with_collection().await;
    let lost = Step::close_before().only(Opcode::COLLECTIONS_GET_ID);
    cluster.node(0).script().push(lost);
    let write = KvRequest::increment("n", 1, 1, 0).in_collection_named("shop.carts");
    let ended = client.call(write).await;
    assert_eq!(ended.status(), Status::SUCCESS);
    assert_eq!(ended.reasons(), [SOCKET_NOT_AVAILABLE]);
    // A deadline during the lookup is unambiguous for the same reason.
    let client = Client::of(&cluster);
    connects(&client).await;
    let hang = Step::hang().only(Opcode::COLLECTIONS_GET_ID);
    cluster.node(0).script().push(hang);
    let write = KvRequest::increment("n", 1, 1, 0).in_collection_named("shop.carts");
    let ended = client.limit(SHORT).call(write).await;
    assert!(!ended.elapsed().ambiguous);
}

/// C34: of all requests that need the same id one does the lookup, and the others share its result.
#[tokio::test]
async fn requests_that_need_the_same_id_share_one_lookup() {
    let (cluster, client) = with_collection().await;
    let lookups = || {
        let seen = data(&cluster, 0).into_iter();
        let lookups = seen.filter(|seen| seen.opcode == Opcode::COLLECTIONS_GET_ID);
        lookups.count()
    };
    let together = async |path: &'static str| {
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let (client, get) = (client.clone(), KvRequest::get("k"));
            calls.spawn(async move { client.call(get.in_collection_named(path)).await });
        }
        calls.join_all().await
    };
    let late = |step: Step| {
        let step = step.after(Duration::from_millis(200));
        let script = cluster.node(0).script();
        script.push(step.only(Opcode::COLLECTIONS_GET_ID));
    };
    // The request that does the lookup fails with it, and no request was sent.
    late(Step::close_before());
    for ended in together("shop.carts").await {
        assert_eq!(ended.status(), Status::KEY_ENOENT);
        assert_eq!(ended.reasons(), [SOCKET_NOT_AVAILABLE]);
    }
    assert_eq!(lookups(), 2);
    // The id is outdated: the first request that learns it removes the id for all.
    recreate_collection(&cluster);
    late(Step::execute());
    for ended in together("shop.carts").await {
        assert_eq!(ended.status(), Status::KEY_ENOENT);
    }
    assert_eq!(lookups(), 3);
    // There is no such collection, for all of them.
    late(Step::execute());
    for ended in together("shop.other").await {
        at_once(&ended, Status::UNKNOWN_COLLECTION);
    }
    assert_eq!(lookups(), 4);
}

/// C34: a request that waits for a lookup takes it over if its caller gives up.
#[tokio::test]
async fn a_lookup_that_is_given_up_is_made_by_the_next() {
    let (cluster, client) = with_collection().await;
    connects(&client).await;
    let hang = Step::hang().only(Opcode::COLLECTIONS_GET_ID);
    cluster.node(0).script().push(hang);
    let hurried = client.clone().limit(SHORT);
    let get = || KvRequest::get("k").in_collection_named("shop.carts");
    let (first, second) = tokio::join!(hurried.call(get()), client.call(get()));
    assert!(!first.elapsed().ambiguous);
    at_once(&second, Status::KEY_ENOENT);
    let opcodes: Vec<_> = data(&cluster, 0).iter().map(|seen| seen.opcode).collect();
    let lookup = Opcode::COLLECTIONS_GET_ID;
    assert_eq!(opcodes, [Opcode::NOOP, lookup, lookup, Opcode::GET]);
}

/// C34: a late rejection of an old id does not remove the id that was looked up since.
#[tokio::test]
async fn a_late_refusal_of_an_old_id_leaves_the_new_one() {
    let (cluster, client) = with_collection().await;
    let within = |request: KvRequest| request.in_collection_named("shop.carts");
    let set = || within(KvRequest::set("k", "v", 0, 0));
    assert_eq!(client.call(set()).await.status(), Status::SUCCESS);
    recreate_collection(&cluster);
    let late = Step::status(Status::UNKNOWN_COLLECTION).after(SHORT);
    cluster.node(0).script().push(late.only(Opcode::GET));
    let (read, written) =
        tokio::join!(client.call(within(KvRequest::get("k"))), client.call(set()),);
    assert_eq!([read.status(), written.status()], [Status::SUCCESS; 2]);
    assert_eq!((read.info.attempts(), written.info.attempts()), (2, 2));
    let seen = data(&cluster, 0).into_iter();
    let lookups = seen.filter(|seen| seen.opcode == Opcode::COLLECTIONS_GET_ID);
    assert_eq!(lookups.count(), 2, "the first, and the writer's");
    assert_eq!(client.collections.get("shop.carts"), Some(0x82));
}

/// C40: replication and connection setup.
#[tokio::test]
async fn what_is_left_out_of_the_list_is_the_callers() {
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    connects(&client).await;
    for operation in [
        Opcode::DCP_STREAM_REQUEST,
        Opcode::GET_ERROR_MAP,
        Opcode::SELECT_BUCKET,
    ] {
        for status in [0x07, 0x09, 0x86, 0x88, 0xa2, 0xa4].map(Status) {
            let step = Step::status(status).only(operation);
            cluster.node(0).script().push(step);
            let ended = client.call(KvRequest::new(operation, "")).await;
            assert_eq!(ended.status(), status, "{operation}");
            assert_eq!(ended.info.attempts(), 1, "{operation} {status}");
        }
    }
}
