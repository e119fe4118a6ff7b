//! HTTP: hyper's client over HTTP/1.1 against one server that is restarted.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use indicatif::ProgressBar;
use reattempt_http::{HttpClientLayer, HttpPushback, TransportFault};
use reattempt_testbed::http::{Http, SeenRequest, Step};
use tower::ServiceBuilder;

use super::DemoError;
use super::exchange::{Exchange, Through, client, named, without};
use super::load::{CallRecord, Plan, Seen, drive};
use super::one_server::OneServer;
use super::policies::{Policies, bucket};
use super::trouble::{Script, Trouble, is_search};
use super::way::Way;
use crate::call::attempts::{JournalLayer, JournalObserver};

/// Runs the load once, against a new server.
pub(crate) async fn run(
    plan: &Plan,
    way: Way,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let mut scene = OneServer::<Http>::start(plan, step).await?;
    let exchange = HttpExchange(scene.addr());
    if way != Way::Stack {
        return without(way, plan, exchange, &mut scene, progress).await;
    }
    let policies = Policies::new(plan);
    let layer = HttpClientLayer::standard()
        .timeout(plan.limit)
        .throttle(Arc::new(bucket(plan)?))
        .strategy(policies.strategy())
        // The server asks for a delay in milliseconds, which the waterfalls show as it is.
        .pushback(HttpPushback::new())
        .observer(Arc::new(JournalObserver))
        .route(move |request: &Request<Full<Bytes>>| {
            Some(policies.of(request.uri().path().starts_with("/search")))
        });
    let stack = ServiceBuilder::new()
        .layer(layer)
        .layer(JournalLayer)
        .service(client(HttpExchange::HTTP2));
    drive(plan, Through::new(stack, exchange), &mut scene, progress).await
}

/// The server's step for one request.
fn step(script: &Script, seen: &SeenRequest) -> Step {
    let answer = || Step::status(200).body(r#"{"price":1}"#);
    let number = seen.path.rsplit('/').next().and_then(|n| n.parse().ok());
    match number.map_or(Trouble::None, |number| script.next(number)) {
        Trouble::None => answer(),
        Trouble::Temporary(kind) => match kind % 6 {
            0 => Step::close_before(),
            1 => Step::status(502),
            2 => Step::status(504),
            _ => Step::status(503),
        },
        Trouble::Slow(delay) => answer().after(delay),
        Trouble::Hang => Step::hang(),
        Trouble::Pushback(delay) => {
            Step::status(429).header("retry-after-ms", delay.as_millis().to_string())
        }
        Trouble::Overloaded => Step::status(503),
    }
}

/// Gets from the server at this address; the path carries the number of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpExchange(pub(crate) SocketAddr);

impl Exchange for HttpExchange {
    const HTTP2: bool = false;

    fn request(self, number: usize) -> Request<Full<Bytes>> {
        let kind = if is_search(number) { "search" } else { "items" };
        let mut request = Request::new(Full::default());
        // An address and a number always form a valid URI.
        *request.uri_mut() = format!("http://{}/{kind}/{number}", self.0)
            .parse()
            .unwrap_or(Uri::from_static("/"));
        request
    }

    async fn seen<B>(outcome: Result<Response<B>, TransportFault>) -> Seen
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
    {
        let response = outcome.map_err(named)?;
        let status = response.status();
        if let Err(error) = response.into_body().collect().await {
            return Err(named(TransportFault::of(&error)));
        }
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("HTTP {}", status.as_u16()).into())
        }
    }

    fn is_failure(response: &Response<Incoming>) -> bool {
        let status = response.status().as_u16();
        status == 429 || status >= 500
    }
}
