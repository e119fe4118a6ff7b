//! Protocols over HTTP: their calls without the stack, through it, and through tower's layers.

use std::future::Future;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use indicatif::ProgressBar;
use reattempt_http::{TransportError, TransportFault};
use tower::Service;

use super::load::{CallRecord, Outcome, Plan, Scene, Seen, Target, bare, drive, through};
use super::way::Way;
use super::{DemoError, tower_stack};

/// What a protocol over HTTP sends to one server, and how it reads the answers.
pub(crate) trait Exchange: Copy + Send + Sync + 'static {
    /// Over HTTP/2; otherwise over HTTP/1.1.
    const HTTP2: bool;

    /// The request of the call with this number.
    fn request(self, number: usize) -> Request<Full<Bytes>>;

    /// The result for the caller, after the answer is read to its end.
    fn seen<B>(outcome: Result<Response<B>, TransportFault>) -> impl Future<Output = Seen> + Send
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static> + Send + 'static;

    /// What tower's retry sends again.
    fn is_failure(response: &Response<Incoming>) -> bool;
}

type Client<B> = legacy::Client<HttpConnector, B>;

/// hyper's client, over HTTP/1.1 or over HTTP/2.
pub(crate) fn client<B>(http2_only: bool) -> Client<B>
where
    B: Body<Data: Send> + Send + 'static,
{
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new())
        .http2_only(http2_only)
        // Only the stack under test retries.
        .retry_canceled_requests(false)
        .build(connector)
}

/// A short name for a transport failure.
pub(crate) fn named(fault: TransportFault) -> std::borrow::Cow<'static, str> {
    match fault {
        TransportFault::ConnectFailed => "connection refused".into(),
        TransportFault::Timeout => "timeout".into(),
        _ => "connection lost".into(),
    }
}

/// The fault of a transport in place of its error.
fn with_fault<B, E: TransportError>(
    outcome: Result<Response<B>, E>,
) -> Result<Response<B>, TransportFault> {
    outcome.map_err(|error| error.fault())
}

/// The load without the stack.
pub(crate) async fn without<X: Exchange>(
    way: Way,
    plan: &Plan,
    exchange: X,
    scene: &mut impl Scene,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let (client, limit) = (client(X::HTTP2), plan.limit);
    if way == Way::Tower {
        let stack = tower_stack::stack(plan, X::is_failure, client).map_err(DemoError::Tower)?;
        let target = move |number| {
            let request = exchange.request(number);
            let judge = |outcome| X::seen(with_fault(outcome));
            tower_stack::call(limit, stack.clone(), request, judge)
        };
        return drive(plan, target, scene, progress).await;
    }
    let target = move |number| {
        let answer = client.request(exchange.request(number));
        bare(limit, async { X::seen(with_fault(answer.await)).await })
    };
    drive(plan, target, scene, progress).await
}

/// Calls of a stack.
#[derive(Clone)]
pub(crate) struct Through<S, X> {
    stack: S,
    exchange: X,
}

impl<S, X> Through<S, X> {
    pub(crate) const fn new(stack: S, exchange: X) -> Self {
        Self { stack, exchange }
    }
}

impl<S, B, X: Exchange> Target for Through<S, X>
where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<B>,
            Error: TransportError + Send,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
{
    async fn call(&self, number: usize) -> Outcome {
        let request = self.exchange.request(number);
        through(self.stack.clone(), request, |outcome| {
            X::seen(with_fault(outcome))
        })
        .await
    }
}
