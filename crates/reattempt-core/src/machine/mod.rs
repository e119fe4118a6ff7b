//! The decisions of a call as pure state machines: no timer, no I/O, no allocation on success.
//!
//! A machine is told what happened and when, and answers what to do. The tower futures and any
//! simulator drive the same machines, so that there is exactly one copy of every rule. Success is
//! no event to decide about and reads no clock.

mod hedge;
mod retry;
mod settle;
#[cfg(test)]
mod tests;
mod transparent;

pub use hedge::{Due, HedgeAction, HedgeMachine, Permit};
pub use retry::{Action, Keep, Resume, RetryMachine, Wait};
pub use settle::Env;
