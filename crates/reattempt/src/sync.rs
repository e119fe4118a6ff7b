//! Atomics and locks for state shared between threads: std's, or loom's when its models are
//! checked.
//!
//! `RUSTFLAGS="--cfg reattempt_loom" cargo test -p reattempt --no-default-features --lib models`

#[cfg(not(all(test, reattempt_loom)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(test, reattempt_loom))]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};
