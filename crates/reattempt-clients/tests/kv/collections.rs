//! Collection ids that several requests need.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use reattempt::{Call, RetryInfo, Stage};
use reattempt_clients::kv::{
    ClientError, CloseReason, CollectionClient, CollectionIds, KvRequest, KvResponse, NodeClient,
    NodeFuture, StageLayer,
};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::{KvClientLayer, KvTransportError};
use reattempt_testbed::kv::{Node, Step};
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceBuilder, ServiceExt as _, service_fn};

use super::{answered, client_of, send, within};

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

/// However many wait: silent nodes get no burst of lookups.
#[tokio::test(start_paused = true)]
async fn each_second_one_of_those_that_wait_looks_the_id_up() {
    let asked: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (times, began) = (Arc::clone(&asked), Instant::now());
    let node = service_fn(move |_: KvRequest| {
        times.lock().unwrap().push(began.elapsed());
        pending::<Answer>()
    });
    let client = CollectionClient::new(node, CollectionIds::new());
    let get = || KvRequest::get("k").in_collection_named("s.c");
    let calls = (0..5).map(|_| client.clone().oneshot(get()));
    let calls: Vec<_> = calls.map(tokio::spawn).collect();
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(
        *asked.lock().unwrap(),
        [0, 1, 2, 3].map(Duration::from_secs)
    );
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_unresolved_collection_name_is_refused_unsent() {
    let node = Node::builder().collection("s.c", 9);
    let node = node.start().await.expect("node");
    let mut client = client_of(&node);
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
    answered(&mut client, get()).await;
    assert_eq!(node.seen_data().last().unwrap().collection, Some(9));
    // An operation that names no document has no collection.
    let noop = KvRequest::noop().in_collection_named("s.c");
    assert!(answered(&mut client, noop).await.is_success());
}

/// Sends lookups to one node, and all else to another.
#[derive(Clone)]
struct Apart {
    lookups: NodeClient,
    others: NodeClient,
}

impl Service<KvRequest> for Apart {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = NodeFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        ready!(self.lookups.poll_ready(cx))?;
        self.others.poll_ready(cx)
    }

    fn call(&mut self, request: KvRequest) -> NodeFuture {
        match request.opcode {
            Opcode::COLLECTIONS_GET_ID => self.lookups.call(request),
            _ => self.others.call(request),
        }
    }
}

/// C48: an attempt that is cut off is one of the node that it waited for.
#[tokio::test]
async fn a_lookups_node_is_reported_until_it_has_answered() {
    let node = || Node::builder().collection("s.c", 9).start();
    let (lookups, others) = (node().await.expect("node"), node().await.expect("node"));
    let hangs = |opcode| Step::hang().only(opcode);
    lookups.script().push(hangs(Opcode::COLLECTIONS_GET_ID));
    others.script().push(hangs(Opcode::GET));
    let apart = Apart {
        lookups: client_of(&lookups),
        others: client_of(&others),
    };
    let layer = KvClientLayer::without_config_poll().timeout(Duration::from_secs(20));
    let stack = ServiceBuilder::new()
        .layer(layer.attempt_timeout(Duration::from_millis(300)))
        .layer(StageLayer::new())
        .service(CollectionClient::new(apart, CollectionIds::new()));
    let mut call = Call::new(KvRequest::get("k").in_collection_named("s.c"));
    let handle = RetryInfo::track(&mut call);
    let answer = within(stack.oneshot(call)).await.expect("answer");
    assert_eq!(answer.status, Status::KEY_ENOENT);
    let info = handle.info();
    assert!(info.attempts() > 2, "{info}");
    let backends = info.records().map(|record| record.backend.clone());
    let mut backends: Vec<_> = backends.map(|node| node.unwrap().to_string()).collect();
    backends.dedup();
    assert_eq!(
        backends,
        [&lookups, &others].map(|node| node.addr().to_string())
    );
}
