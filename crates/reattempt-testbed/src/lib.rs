//! Scripted servers that speak the real wire on loopback, and small clients for them.
//!
//! Not published: tests, examples and the program put the stack around these.

pub mod grpc;
pub mod http;
pub mod kv;
pub mod mongodb;
pub mod percent;
pub mod report;
