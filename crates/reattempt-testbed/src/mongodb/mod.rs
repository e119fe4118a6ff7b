//! MongoDB: a scripted node that speaks OP_MSG, and a small client made of tower services.
//!
//! [`Node`] and [`ReplicaSet`] listen on loopback, answer the commands of the read operations from
//! memory, and fail as their [`Script`] or a `failCommand` fail point says. [`client::Client`]
//! selects a server, checks out a connection and encodes the command for every call, so a retry
//! layer above it meets the Retryable Reads specification by calling it again.

mod attempt;
pub mod client;
mod glue;
pub mod node;
pub mod scram;
pub mod wire;

pub use attempt::prepare;
pub use client::{Client, MongoError, MongoReply, MongoRequest};
pub use glue::report;
pub use node::{Node, ReplicaSet, Script, Step};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks and ignores poisoning, so that a failing test shows its own failure.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a number of any BSON type (`ok` and `code` arrive as int32, int64, double, sometimes as
/// decimal128).
fn number(value: Option<&bson::Bson>) -> Option<f64> {
    match value? {
        bson::Bson::Int32(n) => Some(f64::from(*n)),
        bson::Bson::Int64(n) => Some(*n as f64),
        bson::Bson::Double(n) => Some(*n),
        bson::Bson::Decimal128(n) => n.to_string().parse().ok(),
        bson::Bson::Boolean(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    }
}
