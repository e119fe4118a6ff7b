//! The decisions of a call as pure state machines: no timer, no I/O, no allocation on success.
//!
//! A machine receives each event with its instant and returns what to do. The tower futures and
//! simulators drive the same machines, so each rule has exactly one implementation. Success needs
//! no decision and reads no clock.

mod hedge;
mod retry;
mod settle;
#[cfg(test)]
mod tests;
mod transparent;

pub use hedge::{Due, HedgeAction, HedgeMachine, Permit};
pub use retry::{Action, Keep, Resume, RetryMachine, Wait};
pub use settle::Env;
