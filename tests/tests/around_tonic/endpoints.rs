//! Several endpoints: each attempt may go to another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::connections::refused_port;
use super::server::{Server, Step};
use super::shop::cart_client::CartClient;
use super::stack::{Stack, around, channel};
use super::*;
use reattempt::Backend;
use reattempt::backends::{BackendLayer, RoundRobin};
use tonic::transport::{Channel, Endpoint};
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::Constant;
use tower::{BoxError, Layer, ServiceBuilder};

fn backends(addresses: impl IntoIterator<Item = SocketAddr>) -> RoundRobin<Channel> {
    let named = |address: SocketAddr| (address.to_string(), channel(address));
    RoundRobin::new(addresses.into_iter().map(named)).expect("some")
}

fn names(servers: &[Server]) -> Vec<Backend> {
    let name = |server: &Server| Backend::new(server.address().to_string());
    servers.iter().map(name).collect()
}

async fn three(steps: [Step; 3]) -> Vec<Server> {
    let mut servers = Vec::new();
    for step in steps {
        servers.push(Server::start([step]).await);
    }
    servers
}

fn client_of(config: &ServiceConfig, servers: &[Server]) -> CartClient<impl Stack> {
    around(config, backends(servers.iter().map(Server::address)))
}

/// R13, R40: distinct backends, also for retries; the records have the backend of each attempt.
#[tokio::test]
async fn each_retry_goes_to_an_endpoint_that_the_call_has_not_tried() {
    let servers = three([Step::Fail(busy()), Step::Fail(busy()), Step::Serve]).await;
    let mut client = client_of(&retrying(3), &servers);
    let (request, watch) = watched(item("pie"));
    within(client.add(request)).await.expect("an answer");
    let went: Vec<_> = watch
        .info()
        .records()
        .filter_map(|record| record.backend.clone())
        .collect();
    assert_eq!(went, names(&servers));
    let counts: Vec<_> = servers.iter().map(|server| server.seen().len()).collect();
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(previous(&servers[2].seen()), [Some("2")]);
}

/// R40, R41: one endpoint hangs, the next responds, and the first is cancelled.
#[tokio::test]
async fn hedges_go_to_distinct_endpoints() {
    let servers = three([Step::Hang, Step::Hang, Step::Serve]).await;
    let mut client = client_of(&hedging(3, "0.01s"), &servers);
    let (request, watch) = watched(item("pie"));
    within(client.add(request)).await.expect("an answer");
    for loser in &servers[..2] {
        loser
            .seen_when(|seen| seen.len() == 1 && seen[0].cancelled)
            .await;
    }
    let info = watch.info();
    let mut went: Vec<_> = info
        .records()
        .map(|record| (record.number, record.backend.clone()))
        .collect();
    went.sort();
    assert!(
        went.into_iter()
            .filter_map(|(_, backend)| backend)
            .eq(names(&servers))
    );
}

/// R60, R63: while there is an endpoint that the call has not tried, a refused connection is not
/// counted.
#[tokio::test]
async fn a_dead_endpoint_is_passed_over_transparently() {
    let (_reserved, dead) = refused_port();
    let server = Server::start([]).await;
    let mut client = around(&no_policy(), backends([dead, server.address()]));
    for _ in 0..4 {
        let (request, watch) = watched(item("pie"));
        within(client.add(request)).await.expect("an answer");
        assert_eq!(watch.info().retries(), 0);
    }
    assert_eq!(previous(&server.seen()), [None; 4]);
}

/// R16, R60: with none left the failure is UNAVAILABLE, by the policy.
#[tokio::test]
async fn with_no_endpoint_left_the_policy_decides() {
    let dead = [refused_port(), refused_port()];
    let addresses = || dead.iter().map(|(_, address)| *address);
    for (config, retries, left) in [(no_policy(), 0, 10_000), (retrying(2), 1, 8_000)] {
        let mut client = around(&config, backends(addresses()));
        let (request, watch) = watched(item("pie"));
        let status = within(client.add(request)).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable);
        let info = watch.info();
        assert_eq!((info.attempts(), info.retries()), (2 + retries, retries));
        assert_eq!(tokens(&config), left);
    }
}

/// R16: a call that waits tries all of them until one is up.
#[tokio::test]
async fn a_call_that_waits_finds_the_endpoint_that_comes_up() {
    let dead = [refused_port(), refused_port(), refused_port()];
    let waits = config(r#""timeout":"25s","waitForReady":true"#);
    let mut client = around(&waits, backends(dead.iter().map(|(_, address)| *address)));
    let (request, watch) = watched(item("pie"));
    let up = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        Server::start_at(dead[1].1, []).await
    };
    let (answer, server) = within(async { tokio::join!(client.add(request), up) }).await;
    answer.expect("an answer");
    assert_eq!(previous(&server.seen()), [None]);
    assert_eq!(watch.info().attempts(), 1);
}

/// R16: tonic's own balancer picks anew for each try of a call that waits; it does not report the
/// endpoint.
#[tokio::test]
async fn tonics_own_balanced_channel_takes_the_stack_too() {
    let (_reserved, dead) = refused_port();
    let server = Server::start([Step::Fail(busy()), Step::Fail(busy())]).await;
    let endpoints = [dead, server.address()]
        .map(|address| Endpoint::from_shared(format!("http://{address}")).expect("an address"));
    let mut client = around(
        &config(RETRY_AND_WAIT),
        Channel::balance_list(endpoints.into_iter()),
    );
    for _ in 0..8 {
        within(client.add(item("pie"))).await.expect("an answer");
    }
    assert_eq!(server.seen().len(), 2 + 8);
}

const RETRY_AND_WAIT: &str = r#""timeout":"25s","waitForReady":true,"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.002s",
    "maxBackoff":"0.002s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}"#;

/// Any tower balancer: `BackendLayer` around each channel reports to the records where attempts
/// went.
#[tokio::test]
async fn towers_balancer_around_channels_reports_by_the_layer() {
    let busy_for_long = || vec![Step::Fail(busy()); 3];
    let servers = [
        Server::start(busy_for_long()).await,
        Server::start(busy_for_long()).await,
    ];
    let channels = servers.iter().map(|server| {
        let at = BackendLayer::new(server.address().to_string());
        Constant::new(at.layer(channel(server.address())), 1)
    });
    let balanced = ServiceBuilder::new()
        .buffer(16)
        .service(Balance::new(ServiceList::new(channels.collect::<Vec<_>>())));
    let mut client = around(&retrying(3), balanced);
    let (request, watch) = watched(item("pie"));
    within(client.add(request)).await.unwrap_err();
    let info = watch.info();
    assert_eq!(info.records().len(), 3);
    for server in &servers {
        let name = Backend::new(server.address().to_string());
        let told = info
            .records()
            .filter(|record| record.backend.as_ref() == Some(&name));
        assert_eq!(told.count(), server.seen().len());
    }
}

/// A custom picker: uses the hint that A6 intends, and reports its choice.
#[derive(Clone)]
struct Picker(Arc<[(Backend, Channel)]>);

impl tower::Service<http::Request<tonic::body::Body>> for Picker {
    type Response = http::Response<tonic::body::Body>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let context = request.extensions().get::<CallContext>();
        let tried = context.map_or_else(Vec::new, CallContext::backends_tried);
        let untried = self.0.iter().find(|(backend, _)| !tried.contains(backend));
        let (backend, channel) = untried.unwrap_or(&self.0[0]).clone();
        if let Some(context) = context {
            context.reporter().backend(backend);
        }
        Box::pin(async move { Ok(tower::ServiceExt::oneshot(channel, request).await?) })
    }
}

/// R40
#[tokio::test]
async fn a_picker_of_ones_own_reads_the_hint() {
    let servers = three([Step::Fail(busy()), Step::Fail(busy()), Step::Serve]).await;
    let all = servers.iter().map(|server| {
        (
            Backend::new(server.address().to_string()),
            channel(server.address()),
        )
    });
    let mut client = around(&retrying(3), Picker(all.collect()));
    within(client.add(item("pie"))).await.expect("an answer");
    let counts: Vec<_> = servers.iter().map(|server| server.seen().len()).collect();
    assert_eq!(counts, [1, 1, 1]);
}

/// R64
#[tokio::test]
async fn what_is_added_to_one_attempt_does_not_leak_into_the_next() {
    let servers = three([Step::Fail(busy()), Step::Fail(busy()), Step::Serve]).await;
    let all = servers.iter().map(|server| {
        let name = server.address().port().to_string();
        let mark = name.clone();
        let marked = ServiceBuilder::new()
            .map_request(move |mut request: http::Request<tonic::body::Body>| {
                let value = http::HeaderValue::from_str(&mark).expect("a number");
                request.headers_mut().append("picked", value);
                request
            })
            .service(channel(server.address()));
        (name, marked)
    });
    let backends = RoundRobin::new(all).expect("some");
    let mut client = around(&retrying(3), backends);
    within(client.add(item("pie"))).await.expect("an answer");
    for server in &servers {
        let seen = server.seen();
        let picked: Vec<_> = seen[0].metadata.get_all("picked").iter().collect();
        assert_eq!(picked, [server.address().port().to_string().as_str()]);
    }
}
