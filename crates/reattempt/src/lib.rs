//! crates/reattempt
