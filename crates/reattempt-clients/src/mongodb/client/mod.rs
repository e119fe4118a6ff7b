//! A small MongoDB client whose top is a tower service.
//!
//! [`Client`] sends one [`MongoRequest`] once: it selects a server, checks out a connection, writes
//! the command for that server and reads the reply. It never sends again. A retry layer around it
//! calls it again with the same logical request, and gets a new selection, a new message and the
//! same session.
//!
//! It gives nothing back on the server: it sends no `killCursors`, `endSessions` or
//! `abortTransaction`, and each request begins a session of its own. Servers end them by their own
//! limits, 1 to 30 minutes by default. For an application that sends many requests the official
//! driver is the better client.

mod connection;
mod cursor;
mod description;
mod encoded;
mod error;
mod event;
mod handshake;
mod monitor;
mod operation;
mod options;
mod origin;
mod pool;
mod progress;
mod reply;
mod request;
mod server_error;
mod service;
mod session;
mod state_change;
mod topology;
mod uri;
mod write_error;

pub use connection::Connection;
pub use cursor::{CursorBound, Drained, drain};
pub use description::{ServerDescription, ServerKind, TopologyDescription, TopologyKind};
pub use error::{During, MongoError};
pub use event::{CommandEvent, EventKind, OnEvent};
pub use operation::Operation;
pub use options::{ClientOptions, Credential, ReadPreference};
pub use origin::Origin;
pub use pool::{CheckOutError, Lease, Pool};
pub use progress::{OnProgress, Progress};
pub use reply::MongoReply;
pub use request::MongoRequest;
pub use server_error::ServerError;
pub use service::{Client, ClientFuture};
pub use session::Session;
pub use topology::{Selected, Topology};
pub use uri::{ConnectionString, UriError};
pub use write_error::WriteError;
