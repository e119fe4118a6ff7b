//! A memcached client that retries: `key_value 127.0.0.1:11211 KEY`. Its dependencies are those of
//! `docs/key-value.md` and nothing else.

use reattempt::Call;
use reattempt_clients::kv::{self, ClientOptions, KvRequest, NodeClient};
use reattempt_couchbase::KvClientLayer;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("a node and a key are needed".into());
    };
    let mut kv = ServiceBuilder::new()
        .layer(KvClientLayer::without_config_poll())
        .layer(kv::StageLayer::new())
        .service(NodeClient::new(node, ClientOptions::memcached()));

    let get = Call::new(KvRequest::get(key));
    let answer = kv.ready().await?.call(get).await?;
    println!("status {}", answer.status);
    Ok(())
}
