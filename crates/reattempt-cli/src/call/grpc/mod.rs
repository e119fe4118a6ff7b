//! gRPC.
mod payloads;
