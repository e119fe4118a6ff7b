//! crates/reattempt-core
