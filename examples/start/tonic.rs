//! A tonic client that retries: `tonic http://127.0.0.1:50051`. Its dependencies are those of
//! `docs/tonic.md` and nothing else.

use http::uri::PathAndQuery;
use reattempt_grpc::{GrpcClientLayer, service_config::ServiceConfig};
use tonic::{Request, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;
use tower::ServiceBuilder;

const CONFIG: &str = r#"{"methodConfig": [{
    "name": [{"service": "shop.Cart", "method": "Get"}], "timeout": "5s",
    "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
                    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("a URL is needed")?;
    let endpoint = Endpoint::from_shared(url)?;
    let channel = ServiceBuilder::new()
        .layer(GrpcClientLayer::new(ServiceConfig::parse(CONFIG)?))
        .service(endpoint.connect_lazy());

    // What the methods of a generated client do: `CartClient::new(channel).get(())`.
    let mut cart = Grpc::new(channel);
    cart.ready().await?;
    let method = PathAndQuery::from_static("/shop.Cart/Get");
    let codec = ProstCodec::<(), ()>::default();
    let answer = cart.unary(Request::new(()), method, codec).await?;
    println!("{:?}", answer.metadata());
    Ok(())
}
