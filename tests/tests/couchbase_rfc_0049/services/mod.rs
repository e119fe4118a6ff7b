//! The services over HTTP: the stack around hyper-util's client, against a scripted node on
//! loopback.

mod analytics;
mod bodies;
mod management;
mod query;
mod search;
mod views;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::strategy::BestEffort;
use reattempt::{DeadlineLayer, Elapsed, RetryInfo, RetryLayer, RetryReason, RetryStrategy};
use reattempt_couchbase::service::{
    HttpService, ReadOnly, ServiceAnswer, ServiceBody, ServiceClassifier, ServiceErrorLayer,
    ServiceIdempotencyLayer,
};
use reattempt_http::HttpClassifier;
use reattempt_http::body::ReplayBodyLayer;
use reattempt_testbed::http::{Script, Server, Step};
use reattempt_tests::kv::{PATIENCE, within};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// A service of one node with the stack around it.
struct Node {
    server: Server,
    service: HttpService,
    strategy: Arc<dyn RetryStrategy>,
    limit: Duration,
}

/// The result of a call, with its body read to the end.
struct Ended {
    outcome: Result<(Response<()>, Result<Bytes, BoxError>), BoxError>,
    info: RetryInfo,
}

impl Ended {
    fn status(&self) -> u16 {
        let answered = self.outcome.as_ref().expect("an answer");
        answered.0.status().as_u16()
    }

    fn text(&self) -> &str {
        let answered = self.outcome.as_ref().expect("an answer");
        let body = answered.1.as_ref().expect("a whole body");
        std::str::from_utf8(body).expect("text")
    }

    /// The code of the error in the response.
    fn code(&self) -> Option<i32> {
        let answered = self.outcome.as_ref().expect("an answer");
        let found = answered.0.extensions().get::<ServiceAnswer>();
        found.expect("the layer has read it").error()?.code()
    }

    fn reasons(&self) -> Vec<RetryReason> {
        self.info.reasons().collect()
    }

    fn delays(&self) -> Vec<u128> {
        let delay = |record: &reattempt::AttemptRecord| Some(record.delay?.as_millis());
        self.info.records().filter_map(delay).collect()
    }

    fn elapsed(&self) -> &Elapsed {
        let error = self.outcome.as_ref().expect_err("a timeout");
        error.downcast_ref().expect("a timeout")
    }
}

impl Node {
    async fn start(service: HttpService, script: impl Into<Script>) -> Self {
        Self {
            server: Server::start(script).await.expect("a server"),
            service,
            strategy: Arc::new(BestEffort::new()),
            limit: PATIENCE,
        }
    }

    fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn request(&self, method: Method) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(format!("{}/service", self.server.uri()))
            .body(Full::from("{}"))
            .expect("a request")
    }

    async fn post(&self) -> Ended {
        self.call(self.request(Method::POST)).await
    }

    async fn read_only(&self) -> Ended {
        let mut request = self.request(Method::POST);
        request.extensions_mut().insert(ReadOnly);
        self.call(request).await
    }

    async fn call(&self, mut request: Request<Full<Bytes>>) -> Ended {
        let watch = RetryInfo::track(&mut request);
        let client = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .build_http();
        let stack = ServiceBuilder::new()
            .layer(ServiceIdempotencyLayer::new(self.service))
            .layer(DeadlineLayer::new(self.limit))
            .layer(ReplayBodyLayer::new())
            .map_err(BoxError::from)
            .layer(RetryLayer::new(
                ServiceClassifier::new(self.service, HttpClassifier::new()),
                Arc::clone(&self.strategy),
            ))
            .layer(ServiceErrorLayer::new(self.service))
            .service(client);
        let outcome = within(async {
            let answer: Response<ServiceBody<Incoming>> = stack.oneshot(request).await?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await;
            let body = body.map(|body| body.to_bytes()).map_err(BoxError::from);
            Ok((Response::from_parts(parts, ()), body))
        })
        .await;
        Ended {
            outcome,
            info: watch.info(),
        }
    }

    fn sent(&self) -> usize {
        self.server.seen_count()
    }
}

/// An error in the format of the query and analytics services.
fn error(code: i32, message: &str) -> String {
    format!(
        r#"{{"requestID": "7", "signature": {{"*": "*"}}, "results": [
], "errors": [{{"code": {code}, "msg": "{message}"}}], "status": "fatal", "metrics": {{"errorCount": 1}}}}"#
    )
}

/// A response with an error and this status.
fn fails(status: u16, code: i32, message: &str) -> Step {
    Step::status(status).body(error(code, message))
}

const ROWS: &str = r#"{"requestID": "7", "results": [{"n": 1}], "status": "success"}"#;

fn works() -> Step {
    Step::status(200).body(ROWS)
}
