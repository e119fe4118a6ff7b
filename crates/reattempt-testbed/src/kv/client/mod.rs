//! A small pipelined client: one connection, one node, or a cluster by vbucket. Plain tower
//! services.
//!
//! An answer with a status other than success is an answer. Only trouble on the way is an error,
//! and the error says whether the request may have reached the server. Nothing here tries again.

mod bootstrap;
mod connection;
mod dial;
mod driver;
mod error;
mod forwarding;
mod limit;
mod login;
mod node;
mod options;
mod request;
mod response;
mod routed;
mod seeding;
mod state;

pub use connection::{Connection, ResponseFuture};
pub use dial::ConnectFuture;
pub use error::{ClientError, CloseReason, SendStage};
pub use node::{NodeClient, NodeFuture};
pub use options::{Bootstrap, ClientOptions, OnBytes};
pub use request::{KvRequest, LookupSpec};
pub use response::{ErrorContext, KvResponse};
pub use routed::{MapSource, RoutedClient, RoutedFuture};
