//! Three gRPC services in a row, of which the last is overloaded: retries do not multiply.
//!
//! The shop calls the counter, and the counter calls the oven; each client makes up to three
//! attempts. Without the layers of a hop one order at the top becomes nine calls to the oven; with
//! them, three. Run with `cargo run -p reattempt-examples --example grpc_hops`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::RetryInfo;
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::client::GrpcClient;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_http::hop::{GaveUpLayer, GaveUpService, Hop, ServerHopLayer};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status};
use tower::{BoxError, ServiceBuilder};

use bakery::oven_client::OvenClient;
use bakery::oven_server::{Oven, OvenServer};

const SERVICE_CONFIG: &str = r#"{
    "methodConfig": [{
        "name": [{"service": "bakery.Oven"}],
        "timeout": "5s",
        "retryPolicy": {
            "maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
        }
    }]
}"#;

type Client = OvenClient<GaveUpService<GrpcClient<Channel, ServiceConfig>>>;

/// A client of the service at this address.
fn client(address: SocketAddr) -> Result<Client, BoxError> {
    let channel = ServiceBuilder::new()
        // Reports to the request being served that its own calls have given up.
        .layer(GaveUpLayer)
        .layer(GrpcClientLayer::new(ServiceConfig::parse(SERVICE_CONFIG)?))
        .service(Endpoint::from_shared(format!("http://{address}"))?.connect_lazy());
    Ok(OvenClient::new(channel))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    for (is_hop, expected) in [(false, 9), (true, 3)] {
        let baked = Arc::new(AtomicU32::new(0));
        let oven = serve(Overloaded(Arc::clone(&baked)), is_hop).await?;
        let counter = serve(Forwards(client(oven)?), is_hop).await?;

        let mut order = Request::new(note("rye bread"));
        let watch = RetryInfo::track(order.extensions_mut());
        let status = client(counter)?.bake(order).await.unwrap_err();
        let calls = baked.load(Ordering::Relaxed);
        println!(
            "{:?}: {}; {calls} calls to the oven",
            status.code(),
            status.message()
        );
        println!("  {}", watch.info());
        assert_eq!((status.code(), calls), (Code::Unavailable, expected));
    }
    Ok(())
}

/// The counter: has every order baked.
struct Forwards(Client);

#[tonic::async_trait]
impl Oven for Forwards {
    async fn bake(&self, request: Request<Note>) -> Result<Response<Note>, Status> {
        let hop = request.extensions().get::<Hop>().cloned();
        let mut order = Request::new(request.into_inner());
        if let Some(hop) = hop {
            hop.pass_on_in(order.extensions_mut());
        }
        self.0.clone().bake(order).await
    }
}

/// The oven, which counts its calls.
struct Overloaded(Arc<AtomicU32>);

#[tonic::async_trait]
impl Oven for Overloaded {
    async fn bake(&self, _: Request<Note>) -> Result<Response<Note>, Status> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(Status::unavailable("the oven is full"))
    }
}

/// Starts a server on loopback, with the layer of a hop or without.
async fn serve(oven: impl Oven, is_hop: bool) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let hop = is_hop.then_some(ServerHopLayer::new());
    let server = Server::builder()
        .layer(tower::util::option_layer(hop))
        .add_service(OvenServer::new(oven));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Ok(address)
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
    include!(concat!(env!("OUT_DIR"), "/bakery.Oven.rs"));
}
