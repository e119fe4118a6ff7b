//! Scripted servers that speak real wire protocols on loopback and fail on demand.
//!
//! Tests, examples and the program use them below a stack: [`http`] (both versions), [`grpc`],
//! [`kv`] (Couchbase and memcached) and [`mongodb`]. Codecs and SCRAM are those of
//! `reattempt-clients`.

pub mod grpc;
pub mod http;
pub mod kv;
mod lock;
pub mod mongodb;
mod pause;
