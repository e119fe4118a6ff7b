//! crates/reattempt-http
