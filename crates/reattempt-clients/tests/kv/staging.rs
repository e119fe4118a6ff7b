//! What `StageLayer` reports of an attempt that was answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use reattempt::{Call, RetryInfo, Stage};
use reattempt_clients::kv::{ClientError, Dialling, KvRequest, KvResponse, StageLayer};
use reattempt_couchbase::KvClientLayer;
use reattempt_testbed::kv::Node;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{answered, bare};

/// Is answered in its first poll, and knows no node before.
struct AtOnce {
    answer: KvResponse,
    dialling: bool,
}

impl Dialling for AtOnce {
    fn is_dialling(&self) -> bool {
        self.dialling
    }

    fn address(&self) -> Option<&Arc<str>> {
        None
    }
}

impl Future for AtOnce {
    type Output = Result<KvResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(self.answer.clone()))
    }
}

/// A permit or a connection came, and the answer with it. A layer in between is too slow.
#[tokio::test]
async fn a_write_that_was_answered_at_once_is_not_sent_again() {
    let node = Node::start().await.expect("node");
    let mut connection = bare(&node).await;
    for dialling in [true, false] {
        let set = KvRequest::set("k", "v", 0, 0);
        let answer = answered(&mut connection, set.clone()).await;
        let sent = Arc::new(AtomicU32::new(0));
        let client = StageLayer::new().layer(service_fn({
            let sent = Arc::clone(&sent);
            move |_| {
                sent.fetch_add(1, Ordering::Relaxed);
                let answer = answer.clone();
                AtOnce { answer, dialling }
            }
        }));
        let slow = service_fn(move |call: Call<KvRequest>| {
            let answer = client.clone().oneshot(call);
            async move {
                let answer = answer.await?;
                std::future::pending::<()>().await;
                Ok::<_, ClientError>(answer)
            }
        });
        let limits = KvClientLayer::without_config_poll()
            .timeout(Duration::from_secs(5))
            .attempt_timeout(Duration::from_millis(20));
        let mut call = Call::new(set);
        let watch = RetryInfo::track(&mut call);
        drop(
            limits
                .layer(slow)
                .oneshot(call)
                .await
                .expect_err("too slow"),
        );
        assert_eq!(sent.load(Ordering::Relaxed), 1, "dialling: {dialling}");
        let info = watch.info();
        let record = info.records().last().expect("an attempt");
        assert_eq!(
            record.backend.as_ref().map(|node| node.as_str()),
            Some(&*node.addr().to_string())
        );
        assert_eq!(
            record.failure.map(|failure| failure.stage),
            Some(Stage::Response)
        );
    }
}
