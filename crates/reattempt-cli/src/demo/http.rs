//! HTTP: hyper's client over HTTP/1.1 against one server that is restarted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use indicatif::ProgressBar;
use reattempt_http::{HttpClientLayer, HttpPushback, TransportError, TransportFault};
use reattempt_testbed::http::{Options, SeenRequest, Server, Step};
use tower::{BoxError, Service, ServiceBuilder};

use super::comparison::Way;
use super::load::{CallRecord, Outcome, Plan, Scene, Seen, Target, bare, drive, through};
use super::policies::{Policies, bucket};
use super::trouble::{Move, Script, Trouble, is_search, node_move, phases};
use super::{DemoError, tower_stack};
use crate::call::attempts::{JournalLayer, JournalObserver};

/// Runs the load once, against a new server.
pub(crate) async fn run(
    plan: &Plan,
    way: Way,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let script = Arc::new(Script::new(plan.seed, plan.calls, true));
    let server = start(Options::new(), &script).await?;
    let address = server.addr();
    let mut scene = HttpScene {
        server,
        address,
        script,
        moved: node_move(&phases(plan.calls, true)),
    };
    let limit = plan.limit;
    if way == Way::Bare {
        let target = Bare {
            client: client(),
            address,
            limit,
        };
        return drive(plan, target, &mut scene, progress).await;
    }
    if way == Way::Tower {
        let stack = tower_stack::stack(plan, is_failure, client()).map_err(DemoError::Tower)?;
        let target = Tower {
            stack,
            address,
            limit,
        };
        return drive(plan, target, &mut scene, progress).await;
    }
    let policies = Policies::new(plan);
    let layer = HttpClientLayer::standard()
        .timeout(limit)
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
        .service(client());
    drive(plan, Through::new(stack, address), &mut scene, progress).await
}

pub(crate) fn client<B>() -> Client<HttpConnector, B>
where
    B: Body<Data: Send> + Send + 'static,
{
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        // Only the stack under test retries.
        .retry_canceled_requests(false)
        .build(connector)
}

async fn start(options: Options, script: &Arc<Script>) -> io::Result<Server> {
    let script = Arc::clone(script);
    let handler = move |seen: &SeenRequest| step(&script, seen);
    Server::start_with(options, reattempt_testbed::http::Script::handler(handler)).await
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

struct HttpScene {
    server: Server,
    address: SocketAddr,
    script: Arc<Script>,
    moved: Move,
}

impl Scene for HttpScene {
    /// Stops the server and its connections, and restarts it later at its address.
    async fn before(&mut self, number: usize) -> io::Result<()> {
        if number == self.moved.goes {
            self.server.stop().await;
        }
        if number == self.moved.is_back {
            self.server = start(Options::new().at(self.address), &self.script).await?;
        }
        Ok(())
    }
}

fn request(address: SocketAddr, number: usize) -> Request<Full<Bytes>> {
    let kind = if is_search(number) { "search" } else { "items" };
    let mut request = Request::new(Full::default());
    // An address and a number always form a valid URI.
    *request.uri_mut() = format!("http://{address}/{kind}/{number}")
        .parse()
        .unwrap_or(Uri::from_static("/"));
    request
}

/// The result for the caller, after the answer is read to its end.
async fn seen<B, E>(outcome: Result<Response<B>, E>) -> Seen
where
    B: Body<Error: std::error::Error + Send + Sync + 'static>,
    E: TransportError,
{
    let response = outcome.map_err(|error| named(error.fault()))?;
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

/// What tower's retry sends again.
fn is_failure(response: &Response<hyper::body::Incoming>) -> bool {
    let status = response.status().as_u16();
    status == 429 || status >= 500
}

/// A short name for a transport failure.
pub(crate) fn named(fault: TransportFault) -> std::borrow::Cow<'static, str> {
    match fault {
        TransportFault::ConnectFailed => "connection refused".into(),
        TransportFault::Timeout => "timeout".into(),
        _ => "connection lost".into(),
    }
}

#[derive(Clone)]
struct Bare {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    limit: Duration,
}

impl Target for Bare {
    async fn call(&self, number: usize) -> Outcome {
        let answer = self.client.request(request(self.address, number));
        bare(self.limit, async { seen(answer.await).await }).await
    }
}

/// Calls of a stack.
#[derive(Clone)]
pub(crate) struct Through<S> {
    stack: S,
    address: SocketAddr,
}

impl<S> Through<S> {
    pub(crate) const fn new(stack: S, address: SocketAddr) -> Self {
        Self { stack, address }
    }
}

impl<S, B> Target for Through<S>
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
        let request = request(self.address, number);
        through(self.stack.clone(), request, seen).await
    }
}

#[derive(Clone)]
struct Tower<S> {
    stack: S,
    address: SocketAddr,
    limit: Duration,
}

impl<S> Target for Tower<S>
where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<hyper::body::Incoming>,
            Error = BoxError,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    async fn call(&self, number: usize) -> Outcome {
        let request = request(self.address, number);
        tower_stack::call(self.limit, self.stack.clone(), request, seen).await
    }
}
