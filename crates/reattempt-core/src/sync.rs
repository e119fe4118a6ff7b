//! Atomics and locks for state shared between threads: std's, or loom's when its models are
//! checked.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p reattempt-core --lib models`

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
