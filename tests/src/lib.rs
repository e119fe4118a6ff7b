//! The tests of reattempt, and what they share.

// One copy for the tests beside the layers and for those that cross crates.
#[path = "../../crates/reattempt/src/probe/mod.rs"]
pub mod probe;

pub mod alive;
pub mod kv;
pub mod process;
