//! Scripted servers that speak real wire protocols on loopback, and small clients for them.
//!
//! Not published: tests, examples and the program use these below the stack.

mod blocking;
pub mod grpc;
pub mod http;
pub mod kv;
pub mod mongodb;
pub mod percent;
pub mod report;
pub mod scram;
