//! A tonic client with gRPC A6 around its channels: three servers, one of which fails, and calls of
//! all four kinds.
//!
//! The generated client takes the stack unchanged; the policies are a service config. docs/tonic.md
//! explains the stack with the code of this file. Run with
//! `cargo run -p reattempt-examples --example tonic_client`.

use std::net::SocketAddr;
use std::time::Duration;

use reattempt::{RetryInfo, RoundRobin, StopReason};
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::service_config::{LiveServiceConfig, Options};
use reattempt_grpc::stats::GrpcStats;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::{BoxError, ServiceBuilder};

use bakery::counter_client::CounterClient;
use bakery::counter_server::{Counter, CounterServer};

const SERVICE_CONFIG: &str = r#"{
    "methodConfig": [{
        "name": [{"service": "bakery.Counter"}],
        "timeout": "5s",
        "retryPolicy": {
            "maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
        }
    }, {
        "name": [{"service": "bakery.Counter", "method": "Menu"}],
        "timeout": "5s",
        "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0.05s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    }],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // Several endpoints: each attempt of a call is sent to one that the call has not tried yet.
    let mut channels = Vec::new();
    for name in ["north", "south", "west"] {
        let address = serve(name).await?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        channels.push((name, endpoint.connect_lazy()));
    }
    let backends = RoundRobin::new(channels)?;

    // The policies, which can be replaced while calls are running, and the statistics.
    let config = LiveServiceConfig::with_default(SERVICE_CONFIG, Options::new())?;
    let stats = GrpcStats::new((), "static:///bakery");

    let channel = ServiceBuilder::new()
        .layer(GrpcClientLayer::new(config.clone()).stats(&stats).spans())
        .service(backends);
    let mut client = CounterClient::new(channel);

    println!("--- an order: two servers are busy, one of them sends pushback");
    let mut request = Request::new(note("rye bread"));
    let watch = RetryInfo::track(request.extensions_mut());
    let answer = client.order(request).await?;
    println!("{:?}", answer.get_ref().text);
    println!("{:#}", watch.info());
    assert_eq!(watch.info().attempts(), 3);

    println!("--- the menu: one server takes too long, a hedge asks another");
    let mut request = Request::new(note("today"));
    let watch = RetryInfo::track(request.extensions_mut());
    let mut menu = client.menu(request).await?.into_inner();
    while let Some(dish) = menu.message().await? {
        println!("{:?}", dish.text);
    }
    println!("{:#}", watch.info());
    assert_eq!(watch.info().attempts(), 2);

    println!("--- a box: the retry sends the whole request stream again");
    let dishes = tokio_stream::iter(["rolls", "cake", "rye bread"].map(note));
    let answer = client.pack(dishes).await?;
    let before = answer.metadata().get("grpc-previous-rpc-attempts");
    println!(
        "{:?}, attempts before this one: {before:?}",
        answer.get_ref().text
    );

    println!("--- a chat: both sides stream once the response has begun");
    let (say, says) = mpsc::channel(1);
    let mut hear = client.chat(ReceiverStream::new(says)).await?.into_inner();
    for question in ["fresh?", "how much?"] {
        say.send(note(question)).await?;
        println!("{:?}", hear.message().await?.map(|note| note.text));
    }
    drop(say);
    assert!(hear.message().await?.is_none());

    println!("--- a fatal failure is returned at once, unchanged");
    let mut request = Request::new(note(""));
    let watch = RetryInfo::track(request.extensions_mut());
    let status = client.order(request).await.unwrap_err();
    println!("{:?}: {}", status.code(), status.message());
    for record in watch.info().records() {
        let code = record.failure.and_then(|failure| failure.code);
        println!(
            "attempt {} at {:?}: code {code:?}, pushback {:?}, delay {:?}, tokens {:?}, stopped {:?}",
            record.number,
            record.backend,
            record.pushback,
            record.delay,
            record.milli_tokens,
            record.stopped
        );
    }
    assert_eq!(watch.info().stopped(), Some(StopReason::Fatal));

    println!("--- a deadline of 100 ms");
    let mut request = Request::new(note("wedding cake"));
    request.set_timeout(Duration::from_millis(100));
    let status = client.order(request).await.unwrap_err();
    println!("{:?}: {}", status.code(), status.message());
    assert_eq!(status.code(), Code::DeadlineExceeded);

    println!("--- the config is replaced; an invalid one changes nothing");
    let faults = config.update(r#"{"methodConfig": [{"name": [{}], "timeout": "soon"}]}"#);
    println!("refused: {}", faults.unwrap_err());
    config.update(r#"{"methodConfig": []}"#)?;
    let status = client.order(note("rush")).await.unwrap_err();
    println!("without retries: {:?}: {}", status.code(), status.message());

    println!("--- what was retried, by method");
    for (method, counts) in stats.retry_statistics() {
        println!(
            "{method}: {} retries, {} failed",
            counts.attempts(),
            counts.failed()
        );
    }
    Ok(())
}

/// The message of both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Note {
    /// The text.
    #[prost(string, tag = "1")]
    pub text: String,
}

fn note(text: &str) -> Note {
    Note {
        text: text.to_owned(),
    }
}

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated"
)]
mod bakery {
    include!(concat!(env!("OUT_DIR"), "/bakery.Counter.rs"));
}

/// One of the servers. North and south are overloaded; north is also slow with its menu.
#[derive(Debug)]
struct Bakery {
    name: &'static str,
}

impl Bakery {
    fn busy(&self) -> Status {
        let mut status = Status::unavailable(format!("{} is busy", self.name));
        if self.name == "north" {
            let delay = MetadataValue::from_static("20");
            status
                .metadata_mut()
                .insert("grpc-retry-pushback-ms", delay);
        }
        status
    }
}

type Notes = ReceiverStream<Result<Note, Status>>;

#[tonic::async_trait]
impl Counter for Bakery {
    type MenuStream = Notes;
    type ChatStream = Notes;

    async fn order(&self, request: Request<Note>) -> Result<Response<Note>, Status> {
        match request.get_ref().text.as_str() {
            "" => Err(Status::invalid_argument("an order of nothing")),
            "wedding cake" => std::future::pending().await,
            "rush" => Err(self.busy()),
            _ if self.name != "west" => Err(self.busy()),
            dish => Ok(Response::new(note(&format!(
                "{dish} from the {}",
                self.name
            )))),
        }
    }

    async fn menu(&self, _: Request<Note>) -> Result<Response<Notes>, Status> {
        if self.name == "north" {
            std::future::pending::<()>().await;
        }
        let (sender, receiver) = mpsc::channel(3);
        for dish in ["rolls", "cake", "rye bread"] {
            let dish = format!("{dish} of the {}", self.name);
            sender
                .try_send(Ok(note(&dish)))
                .map_err(|error| Status::internal(error.to_string()))?;
        }
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn pack(&self, request: Request<Streaming<Note>>) -> Result<Response<Note>, Status> {
        let is_first = request
            .metadata()
            .get("grpc-previous-rpc-attempts")
            .is_none();
        let mut dishes = request.into_inner();
        let mut packed = Vec::new();
        while let Some(dish) = dishes.message().await? {
            packed.push(dish.text);
        }
        if is_first {
            return Err(Status::unavailable("the box broke"));
        }
        Ok(Response::new(note(&packed.join(", "))))
    }

    async fn chat(&self, request: Request<Streaming<Note>>) -> Result<Response<Notes>, Status> {
        let mut questions = request.into_inner();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok(Some(question)) = questions.message().await {
                let answer = note(&format!("{} Let me look.", question.text));
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Starts a server on loopback.
async fn serve(name: &'static str) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder().add_service(CounterServer::new(Bakery { name }));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Ok(address)
}
