//! Collection ids that several requests need.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt_clients::kv::{
    ClientError, CloseReason, CollectionClient, CollectionIds, KvRequest, KvResponse,
};
use tokio::time::{Instant, timeout};
use tower::{Service as _, service_fn};

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
