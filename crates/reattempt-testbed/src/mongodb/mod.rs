//! Scripted MongoDB nodes and replica sets that speak OP_MSG.
//!
//! [`Node`] and [`ReplicaSet`] listen on loopback, answer the commands of the read operations from
//! memory, and fail as their [`Script`] says.

pub mod node;

pub use node::{Node, ReplicaSet, Script, Step};
