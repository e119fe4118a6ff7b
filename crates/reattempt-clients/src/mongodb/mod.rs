//! MongoDB: the wire protocol, and a small client made of tower services.
//!
//! [`client::Client`] selects a server, checks out a connection and encodes the command for every
//! call, so a retry layer above it meets the Retryable Reads specification by calling it again.

mod attempt;
pub mod client;
mod glue;
pub mod scram;
pub mod wire;

pub use attempt::prepare;
pub use bson;
pub use client::{Client, MongoError, MongoReply, MongoRequest};
pub use glue::report;
