//! Calls at a steady rate to an HTTP server, and its client.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use indicatif::ProgressBar;
use reattempt_http::body::ReplayBody;
use tokio::task::JoinSet;
use tower::{Service, ServiceBuilder};

use super::super::DemoError;
use super::super::exchange::{Exchange, client};
use super::super::http::HttpExchange;
use super::super::load::{CallRecord, Pace, Target, ended, recorded};

/// Makes these calls at this rate, and waits for each of them.
pub(super) async fn send<T: Target>(
    target: &T,
    numbers: std::ops::Range<usize>,
    rate: u32,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let mut pace = Pace::new(rate);
    let mut calls = JoinSet::new();
    for number in numbers {
        pace.next().await;
        calls.spawn(recorded(target.clone(), number, progress.clone()));
    }
    ended(&mut calls).await
}

pub(super) type Body = ReplayBody<Full<Bytes>>;

/// hyper's client, which sends every request to this server.
pub(super) fn to(
    address: SocketAddr,
) -> impl Service<
    Request<Body>,
    Response = http::Response<Incoming>,
    Error = hyper_util::client::legacy::Error,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    ServiceBuilder::new()
        .map_request(move |mut request: Request<Body>| {
            let path = request.uri().path();
            // An address and a path always form a valid URI.
            *request.uri_mut() = format!("http://{address}{path}")
                .parse()
                .unwrap_or(Uri::from_static("/"));
            request
        })
        .service(client(HttpExchange::HTTP2))
}
