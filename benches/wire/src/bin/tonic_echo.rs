//! tonic echo over loopback: a bare channel, tower's timeout and retry on messages, and this stack.
//!
//! `cargo run --release -p reattempt-wire-cost --bin tonic_echo -- [calls] [rounds] [contender]`,
//! with the number of calls per turn.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use reattempt::strategy::{MaxAttempts, RetryOnce};
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RoundRobin, RouteLayer};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::spans::{AttemptSpanLayer, CallSpanLayer};
use reattempt_grpc::stats::GrpcStats;
use reattempt_grpc::{
    AsGrpcStatus, GrpcClassifier, GrpcClientLayer, GrpcOutcomeLayer, GrpcPushback,
    GrpcTimeoutLayer, PreviousAttemptsLayer,
};
use reattempt_http::ExposeInfoLayer;
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_wire_cost::{Case, Contest, Figure, ServerProcess};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use wire::echo_client::EchoClient;
use wire::echo_server::{Echo, EchoServer};

/// The echoed message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Text {
    /// The text.
    #[prost(string, tag = "1")]
    pub text: String,
}

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated"
)]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/wire.Echo.rs"));
}

struct Parrot;

#[tonic::async_trait]
impl Echo for Parrot {
    async fn say(&self, request: Request<Text>) -> Result<Response<Text>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

async fn serve() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    tonic::transport::Server::builder()
        .add_service(EchoServer::new(Parrot))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}

fn text() -> Text {
    Text {
        text: "0123456789".repeat(10),
    }
}

/// One worker with a generated client around any channel.
macro_rules! generated {
    ($name:literal, $channel:expr) => {{
        let client = EchoClient::new($channel);
        Case::new($name, move |calls| {
            let mut client = client.clone();
            async move {
                for _ in 0..calls {
                    client.say(text()).await.expect("an echo");
                }
            }
        })
    }};
}

/// Retries retryable status codes while the budget lasts, at most three attempts: the usual retry
/// policy around a generated client.
#[derive(Clone, Debug)]
struct RetryMessages {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl tower::retry::Policy<Text, Text, BoxError> for RetryMessages {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Text, result: &mut Result<Text, BoxError>) -> Option<Self::Future> {
        let Err(error) = result else {
            self.budget.deposit();
            return None;
        };
        let code = error.downcast_ref::<Status>().map(Status::code);
        if code != Some(tonic::Code::Unavailable) || self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(std::future::ready(()))
    }

    fn clone_request(&mut self, message: &Text) -> Option<Text> {
        Some(message.clone())
    }
}

/// tower's retry with a budget over its timeout, around a service of messages.
fn towers(channel: Channel) -> Case {
    let client = EchoClient::new(channel);
    let service = ServiceBuilder::new()
        .retry(RetryMessages {
            budget: Arc::new(TpsBudget::default()),
            left: 2,
        })
        .timeout(Duration::from_secs(5))
        .service_fn(move |message: Text| {
            let mut client = client.clone();
            async move { Ok::<_, Status>(client.say(message).await?.into_inner()) }
        });
    Case::new("tower retry + timeout, of messages", move |calls| {
        let mut service = service.clone();
        async move {
            for _ in 0..calls {
                let ready = service.ready().await.expect("it is ready");
                ready.call(text()).await.expect("an echo");
            }
        }
    })
}

const SERVICE_CONFIG: &str = r#"{
    "methodConfig": [{
        "name": [{"service": "wire.Echo"}],
        "timeout": "5s",
        "retryPolicy": {
            "maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
        }
    }],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}"#;

fn boxed<B>(request: http::Request<B>) -> http::Request<Body>
where
    B: http_body::Body<Data = bytes::Bytes, Error: Into<BoxError>> + Send + 'static,
{
    request.map(Body::new)
}

fn retry() -> RetryLayer<GrpcClassifier> {
    RetryLayer::new(GrpcClassifier::new(), RetryOnce)
}

fn hedge() -> HedgeLayer<GrpcClassifier> {
    HedgeLayer::by_policy(GrpcClassifier::new())
}

/// The complete documented stack: its recovery layers, layers of each attempt, and a channel.
macro_rules! stack {
    ($retry:expr, $hedge:expr, [$($of_attempt:expr),*], $channel:expr) => {
        ServiceBuilder::new()
            .layer(RouteLayer::new(
                ServiceConfig::parse(SERVICE_CONFIG).expect("a service config"),
            ))
            .layer(GrpcTimeoutLayer)
            .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(ReplayBodyLayer::new())
            .layer($retry)
            .layer($hedge)
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            $(.layer($of_attempt))*
            .layer(GrpcOutcomeLayer::new())
            .map_request(boxed)
            .service($channel)
    };
}

/// The complete stack with statistics and spans, without a subscriber for either.
macro_rules! measured {
    ($channel:expr) => {{
        let stats = GrpcStats::new((), "static:///echo");
        ServiceBuilder::new()
            .layer(CallSpanLayer::new())
            .layer(stats.call_layer())
            .service(stack!(
                retry().observer(stats.observer()),
                hedge().observer(stats.observer()),
                [AttemptSpanLayer::new(), stats.attempt_layer()],
                $channel
            ))
    }};
}

fn backends(channel: impl Fn() -> Channel) -> RoundRobin<Channel> {
    let all = ["one", "two", "three"].map(|name| (name, channel()));
    RoundRobin::new(all).expect("three")
}

/// All contenders, each with its own connection.
fn cases(channel: impl Fn() -> Channel) -> Vec<Case> {
    vec![
        generated!("bare channel", channel()),
        generated!("bare channel, with a timeout", {
            let limited = |mut request: http::Request<Body>| {
                let timeout = http::HeaderValue::from_static("5000000u");
                request.headers_mut().insert("grpc-timeout", timeout);
                request
            };
            ServiceBuilder::new()
                .map_request(limited)
                .service(channel())
        }),
        towers(channel()),
        generated!(
            "replayable body",
            ServiceBuilder::new()
                .layer(ReplayBodyLayer::new())
                .map_request(boxed)
                .service(channel())
        ),
        generated!(
            "replayable body + retry",
            ServiceBuilder::new()
                .layer(ReplayBodyLayer::new())
                .layer(RetryLayer::new(
                    GrpcClassifier::new(),
                    MaxAttempts::standard()
                ))
                .map_request(boxed)
                .service(channel())
        ),
        generated!(
            "deadline of call and stream",
            ServiceBuilder::new()
                .layer(DeadlineLayer::new(Duration::from_secs(5)).on_elapsed(AsGrpcStatus))
                .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
                .service(channel())
        ),
        generated!("the whole stack", stack!(retry(), hedge(), [], channel())),
        generated!("the preset", {
            let config = ServiceConfig::parse(SERVICE_CONFIG).expect("a service config");
            ServiceBuilder::new()
                .layer(GrpcClientLayer::new(config))
                .service(channel())
        }),
        generated!(
            "the whole stack, with call info",
            ServiceBuilder::new().layer(ExposeInfoLayer).service(stack!(
                retry(),
                hedge(),
                [],
                channel()
            ))
        ),
        generated!(
            "the whole stack, with statistics and spans",
            measured!(channel())
        ),
        generated!("three backends", backends(&channel)),
        generated!(
            "the whole stack, three backends",
            stack!(retry(), hedge(), [], backends(&channel))
        ),
    ]
}

fn number(argument: Option<String>, default: u32) -> Result<u32, BoxError> {
    Ok(argument.map_or(Ok(default), |text| text.parse())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("serve") {
        return serve().await;
    }
    let contest = Contest {
        calls: number(first, 2_000)?,
        rounds: number(arguments.next(), 21)?,
    };
    let server = ServerProcess::start()?;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address()))?;
    let mut cases = cases(|| endpoint.connect_lazy());
    if let Some(name) = arguments.next() {
        cases.retain(|case| case.name() == name);
    }
    println!("{}", Figure::HEAD);
    // A single contender is run for profiling.
    let in_flight = if cases.len() > 1 { &[1, 64][..] } else { &[1] };
    for in_flight in in_flight {
        for figure in contest.run(&cases, *in_flight).await {
            println!("{figure}");
        }
    }
    Ok(())
}
