use std::io;
use std::time::Duration;

use reattempt::strategy::NeverRetry;
use reattempt::{DeadlineLayer, RetryInfo, RetryLayer};
use reattempt_couchbase::KvClassifier;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

use super::*;

/// A request that dials these nodes, a second each, and then fails at the last or is in flight.
struct Dials {
    nodes: Vec<Arc<str>>,
    pause: Pin<Box<tokio::time::Sleep>>,
    fails_at: Option<&'static str>,
}

impl Dials {
    fn new(nodes: &[&str], fails_at: Option<&'static str>) -> Self {
        Self {
            nodes: nodes.iter().rev().map(|node| Arc::from(*node)).collect(),
            pause: second(),
            fails_at,
        }
    }
}

fn second() -> Pin<Box<tokio::time::Sleep>> {
    Box::pin(tokio::time::sleep(Duration::from_secs(1)))
}

impl Dialling for Dials {
    fn is_dialling(&self) -> bool {
        self.nodes.len() > 1 || self.fails_at.is_some()
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.nodes.last()
    }
}

impl Future for Dials {
    type Output = Result<KvResponse, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while self.nodes.len() > 1 {
            std::task::ready!(self.pause.as_mut().poll(cx));
            self.pause = second();
            self.nodes.pop();
        }
        match self.fails_at {
            None => Poll::Pending,
            Some(node) => Poll::Ready(Err(ClientError::Connect {
                address: node.into(),
                source: Arc::new(io::ErrorKind::ConnectionRefused.into()),
            })),
        }
    }
}

/// The backend in the record of the only attempt, which has two and a half seconds.
async fn recorded(nodes: &'static [&str], fails_at: Option<&'static str>) -> Option<String> {
    let mut call = Call::new(KvRequest::get("k"));
    let watch = RetryInfo::track(&mut call);
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_millis(2_500)))
        .layer(RetryLayer::new(KvClassifier::new(), NeverRetry))
        .layer(reattempt::ClientErrorLayer)
        .layer(StageLayer::new())
        .service(service_fn(move |_| Dials::new(nodes, fails_at)));
    drop(stack.oneshot(call).await.expect_err("no answer"));
    let info = watch.info();
    let record = info.records().last().expect("an attempt");
    record.backend.as_ref().map(ToString::to_string)
}

#[tokio::test(start_paused = true)]
async fn the_node_that_was_dialled_last_is_the_attempts() {
    for (nodes, fails_at, last) in [
        (&["a", "b", "c", "d"][..], None, "c"),
        (&["a", "b"], None, "b"),
        (&["a"], None, "a"),
        (&["a", "b"], Some("c"), "c"),
    ] {
        let found = recorded(nodes, fails_at).await;
        assert_eq!(found.as_deref(), Some(last), "{nodes:?} {fails_at:?}");
    }
}
