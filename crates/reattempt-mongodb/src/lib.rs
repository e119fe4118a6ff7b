//! crates/reattempt-mongodb
