//! A tonic client with gRPC A6 around its channel, against a tonic server that fails twice.
//!
//! The generated client takes the stack unchanged. The policy comes from a service config, as A6 writes it.
//! Run with `cargo run -p reattempt-examples --example tonic_client`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::strategy::Once;
use reattempt::{CallContext, DeadlineLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, Code, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
    PreviousAttemptsLayer,
};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Request, Response, Status};
use tower::{BoxError, ServiceBuilder};

/// What is asked.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloRequest {
    /// Who is greeted.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// What is answered.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloReply {
    /// The greeting.
    #[prost(string, tag = "1")]
    pub message: String,
}

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated"
)]
mod greeter {
    include!(concat!(env!("OUT_DIR"), "/greeter.Greeter.rs"));
}

/// Unavailable twice, then polite.
#[derive(Clone, Default)]
struct Flaky(Arc<AtomicU32>);

#[tonic::async_trait]
impl greeter::greeter_server::Greeter for Flaky {
    async fn say_hello(
        &self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloReply>, Status> {
        let before = request
            .metadata()
            .get("grpc-previous-rpc-attempts")
            .cloned();
        println!("server: previous attempts {before:?}");
        if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
            return Err(Status::unavailable("warming up"));
        }
        let message = format!("hello {}", request.into_inner().name);
        Ok(Response::new(HelloReply { message }))
    }
}

const SERVICE_CONFIG: &str = r#"{
    "methodConfig": [{
        "name": [{"service": "greeter.Greeter"}],
        "timeout": "5s",
        "retryPolicy": {
            "maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
        }
    }],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(
        Server::builder()
            .add_service(greeter::greeter_server::GreeterServer::new(Flaky::default()))
            .serve_with_incoming(TcpIncoming::from(listener)),
    );

    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(ServiceConfig::parse(SERVICE_CONFIG)?))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        // Methods without a policy of their own: transparent retries only.
        .layer(RetryLayer::new(GrpcClassifier::new(), Once))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(
            GrpcOutcomeLayer::new()
                .body_error(|status: &tonic::Status| Code::from(status.code() as i32)),
        )
        // The classifier looks into the channel's error for how far the request came.
        .map_err(BoxError::from)
        .map_request(|request: http::Request<_>| request.map(tonic::body::Body::new))
        .service(channel);

    let mut client = greeter::greeter_client::GreeterClient::new(stack);
    let mut request = Request::new(HelloRequest {
        name: "you".to_owned(),
    });
    let watch = CallContext::watch(request.extensions_mut());
    let reply = client.say_hello(request).await?;
    println!(
        "client: {:?} after {} attempts",
        reply.get_ref().message,
        watch.info().attempts()
    );
    for record in watch.info().records() {
        println!(
            "  attempt {}: {:?} {:?}",
            record.number, record.outcome, record.delay
        );
    }
    assert_eq!(watch.info().attempts(), 3);
    Ok(())
}
