//! A small pipelined client as plain tower services: one connection, one node, or a cluster by
//! vbucket.
//!
//! A response with any status is `Ok`. Only a transport failure is an error, and the error states
//! whether the request may have reached the server. The client never retries.

mod bootstrap;
mod connection;
mod driver;
mod error;
mod forwarding;
mod limit;
mod link;
mod login;
mod node;
mod options;
mod payload;
mod request;
mod response;
mod routed;
mod routes;
mod seeding;
mod state;
mod watching;

pub use connection::{Connection, ResponseFuture};
pub use error::{ClientError, CloseReason, SendStage};
pub use link::ConnectFuture;
pub use node::{NodeClient, NodeFuture};
pub use options::{Bootstrap, ClientOptions, OnBytes};
pub use request::{Collection, KvRequest, LookupSpec};
pub use response::{ErrorContext, KvResponse};
pub use routed::{RoutedClient, RoutedFuture};
pub use routes::MapSource;
