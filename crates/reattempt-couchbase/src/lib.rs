//! crates/reattempt-couchbase
