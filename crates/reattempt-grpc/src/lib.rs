//! crates/reattempt-grpc
