//! The decisions of a call as pure state machines: no timer, no I/O, no allocation on success.
//!
//! A machine receives what happened and when, and answers what to do and what to record. It applies
//! nothing: it takes no lock, asks no throttle and calls no observer. The tower futures and any
//! simulator drive the same machines, so that every rule has one home. A success is no event to
//! decide about, and reads no clock.

mod asked;
mod config_moved;
mod deferred;
mod forced;
mod hedge;
mod held;
mod late;
mod retry;
mod streak;
#[cfg(test)]
mod tests;
mod throttled;
mod transparent;

pub use crate::attempt::{Facts, FailedAttempt};
pub use asked::Asked;
pub use hedge::{Due, HedgeAction, HedgeMachine, Planned, Withdrawn};
pub use late::Resume;
pub use retry::{Action, Keep, RetryMachine, Wait};
