//! Collection ids that several requests need.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt::Stage;
use reattempt_clients::kv::{
    ClientError, CloseReason, CollectionClient, CollectionIds, KvRequest, KvResponse, NodeClient,
};
use reattempt_couchbase::KvTransportError;
use reattempt_testbed::kv::Node;
use tokio::time::{Instant, timeout};
use tower::{Service as _, service_fn};

use super::{couchbase, send};

type Answer = Result<KvResponse, ClientError>;

/// A silent node, and the deadline of the request that asked it far away.
#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_holds_up_no_other_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let node = service_fn(
        move |_: KvRequest| -> Pin<Box<dyn Future<Output = Answer> + Send>> {
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => Box::pin(pending()),
                _ => Box::pin(ready(Err(ClientError::ClosedInFlight {
                    address: "other".into(),
                    reason: CloseReason::Closed,
                }))),
            }
        },
    );
    let mut client = CollectionClient::new(node, CollectionIds::new());
    let get = || KvRequest::get("k").in_collection_named("s.c");
    let began = Instant::now();
    let hangs = client.call(get());
    let error = client.call(get()).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert_eq!(asked.load(Ordering::Relaxed), 2, "at another node");
    assert!(timeout(Duration::from_secs(60), hangs).await.is_err());
}

#[tokio::test]
async fn an_unresolved_collection_name_is_refused_unsent() {
    let node = Node::builder().collection("s.c", 9);
    let node = node.start().await.expect("node");
    let mut client = NodeClient::new(node.addr().to_string(), couchbase());
    let get = || KvRequest::get("k").in_collection_named("s.c");
    let error = send(&mut client, get()).await.unwrap_err();
    let ClientError::UnresolvedCollection { address, path } = &error else {
        panic!("{error}");
    };
    assert_eq!((&**address, &**path), (client.address(), "s.c"));
    assert_eq!(KvTransportError::stage(&error), Stage::Dispatch);
    assert!(error.is_fatal());
    assert!(error.to_string().contains("CollectionClient"), "{error}");
    assert!(node.seen_data().is_empty());
    // The id is looked up, and the name no longer stands in the way.
    let mut client = CollectionClient::new(client, CollectionIds::new());
    send(&mut client, get()).await.expect("answer");
    assert_eq!(node.seen_data().last().unwrap().collection, Some(9));
    // An operation that names no document has no collection.
    let noop = KvRequest::noop().in_collection_named("s.c");
    assert!(send(&mut client, noop).await.expect("answer").is_success());
}
