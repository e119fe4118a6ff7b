//! tower layers that carry a call through failure.

pub mod config_poll;
mod order;
pub mod pushback;

pub use reattempt_core::*;
