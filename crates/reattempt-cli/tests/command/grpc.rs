//! `reattempt call` over gRPC.
