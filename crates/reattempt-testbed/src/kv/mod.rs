//! Scripted nodes and clusters that speak Couchbase's key-value protocol (memcached binary).
//!
//! [`Node`] and [`Cluster`] answer as a Couchbase node does, and follow a [`Script`].

pub mod node;

pub use node::{Cluster, Node, NodeBuilder, Script, SeenRequest, Step, Store};
