//! hyper-util's client with the stack around it.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::strategy::Attempts;
use reattempt::{CallContext, DeadlineLayer, PushbackLayer, RetryInfo, RetryLayer};
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use reattempt_http::{HttpStatus, RetryAfter};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// The time after which a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it hangs")
}

#[derive(Clone)]
pub(crate) struct Client {
    hyper: Hyper<HttpConnector, ReplayBody<Full<Bytes>>>,
    uri: String,
    retry_after: RetryAfter,
}

/// How a call ended.
pub(crate) struct Ended {
    pub(crate) outcome: Result<(u16, HeaderMap), BoxError>,
    pub(crate) info: RetryInfo,
    pub(crate) took: Duration,
}

impl Ended {
    pub(crate) fn status(&self) -> u16 {
        self.outcome.as_ref().expect("an answer").0
    }
}

impl Client {
    /// hyper-util's own retries are off, so every further attempt is made by the stack.
    pub(crate) fn new(uri: String, http2: bool) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let hyper = Hyper::builder(TokioExecutor::new())
            .http2_only(http2)
            .retry_canceled_requests(false)
            .build(connector);
        Self {
            hyper,
            uri,
            retry_after: RetryAfter::new(),
        }
    }

    pub(crate) fn retry_after(mut self, reader: RetryAfter) -> Self {
        self.retry_after = reader;
        self
    }

    /// Up to a hundred attempts, 5 ms apart; the response is read to the end.
    pub(crate) async fn call(&self, method: Method, path: &str, name: &str) -> Ended {
        let body = if method == Method::POST { "apples" } else { "" };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.uri))
            .header("x-name", name)
            .body(Full::from(body))
            .expect("a request");
        let watch = CallContext::watch(&mut request);
        let strategy = Attempts::new(100, Backoff::constant(Duration::from_millis(5)));
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(PATIENCE))
            .layer(ReplayBodyLayer::new())
            .map_err(BoxError::from)
            .layer(RetryLayer::new(HttpStatus::new(), strategy))
            .layer(PushbackLayer::new(self.retry_after.clone()))
            .service(self.hyper.clone());
        let began = tokio::time::Instant::now();
        let outcome = async {
            let (head, body) = service.oneshot(request).await?.into_parts();
            body.collect().await?;
            Ok((head.status.as_u16(), head.headers))
        };
        let outcome = within(outcome).await;
        Ended {
            outcome,
            info: watch.info(),
            took: began.elapsed(),
        }
    }
}
