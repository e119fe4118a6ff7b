//! An SDK: a typed client of a service, whose users see neither tower nor HTTP.
//!
//! The stack is a field with a name. A user may replace the strategy of single calls, and gets the
//! record of a call with its error. Run with `cargo run -p reattempt-examples --example sdk`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::strategy::NeverRetry;
use reattempt::{HasCallContext, Idempotency, RetryInfo, RetryStrategy};
use reattempt_http::HttpClientLayer;
use reattempt_http::body::ReplayBody;
use reattempt_http::client::HttpClient;
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, Layer, ServiceExt};

/// A client of the shop. Clones share its connections and its throttle.
#[derive(Clone)]
struct Shop {
    http: HttpClient<Client<HttpConnector, ReplayBody<Full<Bytes>>>>,
    uri: String,
}

/// Settings of one call.
#[derive(Default)]
struct CallOptions {
    strategy: Option<Arc<dyn RetryStrategy>>,
}

/// Why a call failed, and what was tried.
#[derive(Debug)]
struct ShopError {
    cause: BoxError,
    info: RetryInfo,
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cause, self.info)
    }
}

impl std::error::Error for ShopError {}

impl Shop {
    fn new(uri: String) -> Self {
        let hyper = Client::builder(TokioExecutor::new()).build_http();
        let layer = HttpClientLayer::standard().timeout(Duration::from_secs(5));
        Self {
            http: layer.layer(hyper),
            uri,
        }
    }

    /// How many are left.
    async fn stock(&self, item: &str) -> Result<u32, ShopError> {
        let path = format!("/stock/{item}");
        let text = self.send(Method::GET, &path, CallOptions::default());
        text.await?.parse().map_err(|error| ShopError {
            cause: BoxError::from(error),
            info: RetryInfo::default(),
        })
    }

    /// Reserves one. The server reserves an order once, whatever its attempts.
    async fn reserve(&self, order: u32, options: CallOptions) -> Result<String, ShopError> {
        self.send(Method::POST, &format!("/orders/{order}"), options)
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        options: CallOptions,
    ) -> Result<String, ShopError> {
        let mut request = Request::new(Full::<Bytes>::default());
        *request.method_mut() = method;
        let context = request.context_mut();
        // The API's own promise: its POSTs carry the number of their order.
        context.set_idempotency(Idempotency::Idempotent);
        if let Some(strategy) = options.strategy {
            context.set_strategy(strategy);
        }
        let tried = RetryInfo::track(&mut request);
        let outcome = async {
            *request.uri_mut() = format!("{}{path}", self.uri).parse()?;
            let answer = self.http.clone().oneshot(request).await?;
            if !answer.status().is_success() {
                return Err(format!("the shop answered {}", answer.status()).into());
            }
            let body = answer.into_body().collect().await?.to_bytes();
            Ok(String::from_utf8(body.into())?)
        };
        outcome.await.map_err(|cause: BoxError| ShopError {
            cause,
            info: tried.info(),
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let script = Script::new()
        .then(Step::status(503))
        .then(Step::status(200).body("12"))
        .then(Step::close_before())
        .then(Step::status(200).body("reserved"))
        .otherwise(Step::status(503).header("retry-after", "3600"));
    let server = Server::start(script).await?;
    let shop = Shop::new(server.uri());

    // The service is unavailable once, and loses a connection once: neither is seen.
    assert_eq!(shop.stock("loaf").await?, 12);
    let reserved = shop.reserve(1, CallOptions::default()).await?;
    assert_eq!(reserved, "reserved");
    assert_eq!(server.seen().len(), 4);

    // An hour is more than any caller waits: the failure is returned at once, with its record.
    let error = shop.stock("loaf").await.unwrap_err();
    println!("{error}");
    assert_eq!(error.info.attempts(), 1);

    // A caller with a queue of its own wants no retry.
    let strategy: Arc<dyn RetryStrategy> = Arc::new(NeverRetry);
    let options = CallOptions {
        strategy: Some(strategy),
    };
    let error = shop.reserve(2, options).await.unwrap_err();
    println!("{error}");
    assert_eq!((server.seen().len(), error.info.attempts()), (6, 1));
    Ok(())
}
