//! HTTP/2 servers that allow one stream at a time and send GOAWAY while calls wait for it:
//! hyper-util, reqwest and tonic.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::strategy::{MaxAttempts, RetryOnce};
use reattempt::{DeadlineLayer, RetryInfo, RetryLayer, Stage, StopReason};
use reattempt_grpc::GrpcClassifier;
use reattempt_http::HttpClassifier;
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use reattempt_http::reqwest::ReqwestService;
use reattempt_tests::{PATIENCE, within};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The server's next step, set by the test.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stand {
    Open,
    /// GOAWAY on the first connection.
    GoneAway,
    /// Responds to what that connection still has.
    Finished,
}

struct Server {
    address: SocketAddr,
    stand: watch::Sender<Stand>,
    /// The requests received, by the caller's name for them.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (stand, stands) = watch::channel(Stand::Open);
        let seen = Arc::default();
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut first = true;
            while let Ok((socket, _)) = listener.accept().await {
                let stands = std::mem::take(&mut first).then(|| stands.clone());
                tokio::spawn(serve(socket, stands, Arc::clone(&noted)));
            }
        });
        Self {
            address,
            stand,
            seen,
        }
    }

    fn times(&self, name: &str) -> usize {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().filter(|seen| *seen == name).count()
    }

    async fn until_seen(&self, name: &str) {
        let seen = async {
            while self.times(name) == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(seen).await;
    }
}

/// Responds to each request. The first connection allows one stream at a time, and delays its
/// second response.
async fn serve(
    socket: TcpStream,
    stands: Option<watch::Receiver<Stand>>,
    seen: Arc<Mutex<Vec<String>>>,
) -> Option<()> {
    let mut builder = h2::server::Builder::new();
    if stands.is_some() {
        builder.max_concurrent_streams(1);
    }
    let mut connection = builder.handshake::<_, Bytes>(socket).await.ok()?;
    let mut held = None;
    let mut number = 0;
    loop {
        let accepted = match &held {
            None => connection.accept().await,
            Some(_) => {
                let mut stands = stands.clone()?;
                tokio::select! {
                    said = stands.wait_for(|stand| *stand >= Stand::GoneAway) => drop(said.ok()?),
                    _ = connection.accept() => panic!("one stream at a time"),
                }
                connection.graceful_shutdown();
                tokio::select! {
                    said = stands.wait_for(|stand| *stand >= Stand::Finished) => drop(said.ok()?),
                    more = connection.accept() => drop(more?.ok()?),
                }
                answer(held.take()?);
                while connection.accept().await.is_some() {}
                return None;
            }
        };
        let (request, respond) = accepted?.ok()?;
        let name = request.headers().get("x-name").cloned();
        let name = name.as_ref().and_then(|name| name.to_str().ok());
        seen.lock()
            .expect("no panic")
            .push(name.unwrap_or_default().to_owned());
        // Lets hyper continue with its body.
        tokio::spawn(async move {
            let mut body = request.into_body();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
            }
        });
        number += 1;
        if stands.is_some() && number == 2 {
            held = Some(respond);
        } else {
            answer(respond);
        }
    }
}

/// Valid for HTTP and for gRPC.
fn answer(mut respond: h2::server::SendResponse<Bytes>) {
    let head = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "0");
    let _ = respond.send_response(head.body(()).expect("a head"), true);
}

/// The result of one call.
struct Ended {
    outcome: Result<u16, BoxError>,
    info: RetryInfo,
}

/// One client in its documented stack.
trait Caller: Clone + Send + 'static {
    fn call(&self, request: Request<Full<Bytes>>) -> impl Future<Output = Ended> + Send;
}

/// The HTTP stack around a service.
async fn http_stack<S, B>(service: S, mut request: Request<Full<Bytes>>) -> Ended
where
    S: Service<Request<ReplayBody<Full<Bytes>>>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: reattempt_http::TransportError + Into<BoxError> + Send,
    S::Future: Send,
    B: Send,
{
    let info = RetryInfo::track(&mut request);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(PATIENCE))
        .layer(ReplayBodyLayer::new())
        .map_err(Into::<BoxError>::into)
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::new(3, Backoff::constant(Duration::from_millis(1))),
        ))
        .service(service);
    let outcome = within(service.oneshot(request)).await;
    Ended {
        outcome: outcome.map(|answer| answer.status().as_u16()),
        info: info.info(),
    }
}

#[derive(Clone)]
struct HyperUtil(
    Client<hyper_util::client::legacy::connect::HttpConnector, ReplayBody<Full<Bytes>>>,
);

impl HyperUtil {
    /// Its own retries are off, so every further attempt is made by the stack.
    fn new() -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        Self(
            builder
                .http2_only(true)
                .retry_canceled_requests(false)
                .build_http(),
        )
    }
}

impl Caller for HyperUtil {
    async fn call(&self, request: Request<Full<Bytes>>) -> Ended {
        http_stack(self.0.clone(), request).await
    }
}

#[derive(Clone)]
struct Reqwest(ReqwestService);

impl Reqwest {
    /// An idempotent request's body in memory is handed over in one piece.
    fn new() -> Self {
        let builder = reqwest::Client::builder()
            .http2_prior_knowledge()
            .retry(reqwest::retry::never());
        Self(ReqwestService::new(builder.build().expect("a client")))
    }

    fn streaming() -> Self {
        Self(Self::new().0.streaming())
    }
}

impl Caller for Reqwest {
    async fn call(&self, request: Request<Full<Bytes>>) -> Ended {
        http_stack(self.0.clone(), request).await
    }
}

/// Retries only what the server never saw.
#[derive(Clone)]
struct Tonic(tonic::transport::Channel);

impl Tonic {
    fn new(address: SocketAddr) -> Self {
        let uri = format!("http://{address}");
        let endpoint = tonic::transport::Endpoint::from_shared(uri);
        Self(endpoint.expect("an endpoint").connect_lazy())
    }
}

impl Caller for Tonic {
    async fn call(&self, mut request: Request<Full<Bytes>>) -> Ended {
        let info = RetryInfo::track(&mut request);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(PATIENCE))
            .layer(ReplayBodyLayer::new())
            .map_err(BoxError::from)
            .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
            .map_request(|request: Request<ReplayBody<_>>| request.map(tonic::body::Body::new))
            .service(self.0.clone());
        let outcome = within(service.oneshot(request)).await;
        Ended {
            outcome: outcome.map(|answer| answer.status().as_u16()),
            info: info.info(),
        }
    }
}

fn request(
    server: &Server,
    method: &Method,
    name: &str,
    body: &'static str,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://{}/shop.Cart/Add", server.address))
        .header("x-name", name)
        .body(Full::from(body))
        .expect("a request")
}

/// Starts a call in its own task and lets it progress: only tasks of this thread must run until it
/// waits for a stream.
async fn begin<C: Caller>(client: &C, request: Request<Full<Bytes>>) -> JoinHandle<Ended> {
    let client = client.clone();
    let task = tokio::spawn(async move { client.call(request).await });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    task
}

/// One call has the only stream, `method` with `body` waits for it, and another call behind that;
/// then GOAWAY arrives.
async fn waits<C: Caller>(
    client: impl Fn(&Server) -> C,
    method: Method,
    body: &'static str,
) -> (Ended, usize) {
    let server = Server::start().await;
    let client = client(&server);
    let post = |name| request(&server, &Method::POST, name, "apples");
    // From now on the client knows the limit.
    assert_eq!(
        client.call(post("warm")).await.outcome.expect("an answer"),
        200
    );
    let held = begin(&client, post("held")).await;
    server.until_seen("held").await;
    let waits = begin(&client, request(&server, &method, "waits", body)).await;
    let queued = begin(&client, post("queued")).await;
    server.stand.send_replace(Stand::GoneAway);
    let [waits, queued] =
        [within(waits).await, within(queued).await].map(|ended| ended.expect("no panic"));
    assert_eq!(queued.outcome.expect("an answer"), 200);
    assert_eq!((queued.info.retries(), server.times("queued")), (0, 1));
    server.stand.send_replace(Stand::Finished);
    let held = within(held).await.expect("no panic");
    assert_eq!(
        (held.outcome.expect("an answer"), held.info.attempts()),
        (200, 1)
    );
    (waits, server.times("waits"))
}

/// R60: if its body was not read, it was never sent, whatever the method.
async fn is_sent_again_uncounted<C: Caller>(client: impl Fn(&Server) -> C) {
    let (ended, seen) = waits(client, Method::POST, "apples").await;
    assert_eq!(ended.outcome.expect("an answer"), 200);
    assert_eq!(
        (ended.info.attempts(), ended.info.retries(), seen),
        (2, 0, 1)
    );
    let lost = ended
        .info
        .records()
        .next()
        .and_then(|record| record.failure);
    assert_eq!(lost.expect("a failure").stage, Stage::Dispatch);
}

/// Without a body its head may have been sent: the method decides whether it is retried.
async fn counts_as_in_flight<C: Caller>(client: impl Fn(&Server) -> C) {
    idempotent_ones_are_retried(&client, "").await;
    let (ended, seen) = waits(client, Method::POST, "").await;
    assert!(ended.outcome.is_err());
    assert_eq!(
        (ended.info.stopped(), seen),
        (Some(StopReason::NotIdempotent), 0)
    );
    let lost = ended
        .info
        .records()
        .next()
        .and_then(|record| record.failure);
    assert_eq!(lost.expect("a failure").stage, Stage::InFlight);
}

async fn idempotent_ones_are_retried<C: Caller>(
    client: &impl Fn(&Server) -> C,
    body: &'static str,
) {
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let (ended, seen) = waits(client, method, body).await;
        assert_eq!(ended.outcome.expect("an answer"), 200);
        assert_eq!(
            (ended.info.attempts(), ended.info.retries(), seen),
            (2, 1, 1)
        );
    }
}

#[tokio::test]
async fn hyper_util_with_an_unread_body_is_sent_again() {
    is_sent_again_uncounted(|_| HyperUtil::new()).await;
}

#[tokio::test]
async fn hyper_util_without_a_body_goes_by_the_method() {
    counts_as_in_flight(|_| HyperUtil::new()).await;
}

#[tokio::test]
async fn reqwest_with_an_unread_stream_is_sent_again() {
    is_sent_again_uncounted(|_| Reqwest::streaming()).await;
}

#[tokio::test]
async fn reqwest_without_a_body_goes_by_the_method() {
    counts_as_in_flight(|_| Reqwest::new()).await;
}

/// R60: of a body in one piece it is unknown whether it was sent; a POST's is a stream at first.
#[tokio::test]
async fn reqwest_with_a_body_in_one_piece_retries_too() {
    idempotent_ones_are_retried(&|_: &Server| Reqwest::new(), "apples").await;
    is_sent_again_uncounted(|_| Reqwest::new()).await;
}

#[tokio::test]
async fn a_tonic_call_that_waits_is_sent_again() {
    is_sent_again_uncounted(|server| Tonic::new(server.address)).await;
}
