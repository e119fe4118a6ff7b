//! hyper-util's client, or reqwest's, with the stack around it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::RetryInfo;
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt_http::body::{DeadlineBodyError, ReplayBody};
use reattempt_http::{AnyTransportError, HttpClientLayer, HttpPushback};
use reattempt_tests::{PATIENCE, within};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};

/// A client without its stack.
type Http = BoxCloneSyncService<
    Request<ReplayBody<Full<Bytes>>>,
    Response<UnsyncBoxBody<Bytes, BoxError>>,
    AnyTransportError,
>;

#[derive(Clone)]
pub(crate) struct Client {
    http: Http,
    uri: String,
    retry_after: HttpPushback,
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
    pub(crate) fn hyper_util(uri: String, http2: bool) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let hyper: Hyper<_, ReplayBody<Full<Bytes>>> = Hyper::builder(TokioExecutor::new())
            .http2_only(http2)
            .retry_canceled_requests(false)
            .build(connector);
        let http = ServiceBuilder::new()
            .map_response(|answer: Response<hyper::body::Incoming>| answer.map(boxed))
            .map_err(AnyTransportError::new)
            .service(hyper);
        Self::around(BoxCloneSyncService::new(http), uri)
    }

    /// reqwest's client over HTTP/2, its own retries off too.
    pub(crate) fn reqwest(uri: String) -> Self {
        let client = reqwest::Client::builder()
            .http2_prior_knowledge()
            .retry(reqwest::retry::never())
            .build()
            .expect("a client");
        let http = tower::service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
            let client = client.clone();
            async move {
                let request = request.map(reqwest::Body::wrap).try_into();
                let answer = client.execute(request.map_err(AnyTransportError::new)?);
                let answer = answer.await.map_err(AnyTransportError::new)?;
                Ok(Response::from(answer).map(boxed::<reqwest::Body>))
            }
        });
        Self::around(BoxCloneSyncService::new(http), uri)
    }

    fn around(http: Http, uri: String) -> Self {
        Self {
            http,
            uri,
            retry_after: HttpPushback::new(),
        }
    }

    pub(crate) fn retry_after(mut self, reader: HttpPushback) -> Self {
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
        let watch = RetryInfo::track(&mut request);
        let strategy = MaxAttempts::new(100, Backoff::constant(Duration::from_millis(5)));
        let layer = HttpClientLayer::standard()
            .timeout(PATIENCE)
            .no_throttle()
            .strategy(strategy)
            .pushback(self.retry_after.clone());
        let service = layer.layer(self.http.clone());
        let began = tokio::time::Instant::now();
        let outcome = async {
            let (head, body) = service.oneshot(request).await?.into_parts();
            let body = body.collect().await;
            body.map_err(|error| match error {
                DeadlineBodyError::Body(error) => error,
                DeadlineBodyError::Elapsed(elapsed) => elapsed.into(),
                other => panic!("{other}"),
            })?;
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

fn boxed<B>(body: B) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}
