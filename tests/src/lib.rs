//! The cross-crate tests of reattempt, and the code they share.

// Shared by the tests beside the layers and those that cross crates.
#[path = "../../crates/reattempt/src/probe/mod.rs"]
pub mod probe;

pub mod alive;
pub mod kv;
pub mod nginx;
pub mod process;
