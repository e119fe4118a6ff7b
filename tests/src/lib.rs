//! The cross-crate tests of reattempt, and the code they share.

pub mod alive;
pub mod kv;
pub mod nginx;
pub mod process;
