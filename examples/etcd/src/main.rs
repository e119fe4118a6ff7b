//! etcd-client with retries below it, as its custom channel, against a server with a script.
//!
//! A package of its own, because etcd-client's build needs `protoc` (Debian: `protobuf-compiler`).
//! Run with `cargo run --manifest-path examples/etcd/Cargo.toml`.

use etcd_client::{Channel, Client};
use prost::Message;
use reattempt_grpc::GrpcClientLayer;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_testbed::grpc::{Script, Server, Step};
use tonic::Code;
use tonic::transport::Endpoint;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

/// Reads are repeated, writes are not: a put whose answer was lost may be applied, and a
/// transaction that compares would then fail.
const CONFIG: &str = r#"{
    "methodConfig": [{
        "name": [{"service": "etcdserverpb.KV", "method": "Range"}],
        "timeout": "5s",
        "retryPolicy": {
            "maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
        }
    }],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}"#;

async fn client(uri: String) -> Result<Client, BoxError> {
    let channel = ServiceBuilder::new()
        .map_err(BoxError::from)
        .map_response(|response: tonic::codegen::http::Response<_>| {
            response.map(tonic::body::Body::new)
        })
        .layer(GrpcClientLayer::new(ServiceConfig::parse(CONFIG)?))
        .service(Endpoint::from_shared(uri)?.connect_lazy());
    let channel = Channel::Custom(BoxCloneSyncService::new(channel));
    Ok(Client::from_channel(channel, None).await?)
}

/// etcd's `RangeResponse`, as far as it is used here.
#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// The leader changes, a connection is dropped, a stream is refused; then it works.
fn trouble() -> Script {
    let leader_changed = || Step::trailers_only(Code::Unavailable, "etcdserver: leader changed");
    Script::new()
        .then(leader_changed())
        .then(Step::close())
        .then(Step::refuse_stream())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let found = RangeResponse {
        kvs: vec![KeyValue {
            key: b"loaf".to_vec(),
            value: b"750 g".to_vec(),
        }],
    };
    let server = Server::start(trouble().otherwise(Step::ok(found.encode_to_vec()))).await?;
    let mut etcd = client(server.uri()).await?;

    let answer = etcd.get("loaf", None).await?;
    let weight = answer.kvs().first().ok_or("no such key")?.value_str()?;
    println!("get: {weight} after {} attempts", server.seen().len());
    assert_eq!((weight, server.seen().len()), ("750 g", 4));

    // A put whose answer is lost may have been applied: it is not repeated.
    server.forget();
    server.set_script(Script::new().then(Step::close()));
    let lost = etcd.put("loaf", "800 g", None).await;
    println!("put: {}", lost.expect_err("its answer was lost"));
    assert_eq!(server.seen().len(), 1);

    // One that etcd refused to begin is, without any policy.
    server.forget();
    server.set_script(Script::new().then(Step::refuse_stream()));
    etcd.put("loaf", "800 g", None).await?;
    assert_eq!(server.seen().len(), 2);
    Ok(())
}
