//! Small clients below the layers of `reattempt`: plain tower services that send each request once.
//!
//! - [`kv`]: Couchbase's and memcached's key-value protocol: a connection, a node, a cluster.
//! - [`mongodb`]: MongoDB with server selection and connection pools.
//! - [`grpc`]: length-prefixed messages, for an HTTP/2 client.
//!
//! The wire codecs are public, and so is the server's side of [`scram`]: the scripted servers of
//! `reattempt-testbed` use them. No client speaks TLS.
//!
//! ```no_run
//! use reattempt::{Call, ClientError};
//! use reattempt_clients::kv::{self, ClientOptions, KvRequest, NodeClient};
//! use reattempt_couchbase::KvClientLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # async fn run() -> Result<(), ClientError<kv::ClientError>> {
//! let mut stack = ServiceBuilder::new()
//!     .layer(KvClientLayer::without_config_poll())
//!     .layer(kv::StageLayer::new())
//!     .service(NodeClient::new("127.0.0.1:11211", ClientOptions::memcached()));
//! let answer = stack.ready().await?.call(Call::new(KvRequest::get("key"))).await?;
//! println!("status {}", answer.status);
//! # Ok(())
//! # }
//! ```

mod blocking;
mod dial;
pub mod grpc;
mod instant;
pub mod kv;
mod lock;
pub mod mongodb;
pub mod percent;
pub mod report;
pub mod scram;
