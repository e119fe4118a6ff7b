//! Bodies: sent more than once, bounded in time, judged by how they end, and read where nobody
//! wants the rest.

mod budget;
mod buffer;
mod deadline;
mod drain;
mod frames;
mod kept;
mod outcome;
mod replay;
mod replay_layer;
#[cfg(test)]
mod tests;
mod wake_all;

pub use budget::BufferBudget;
pub use deadline::{
    AsBodyError, DeadlineBody, DeadlineBodyError, DeadlineBodyFuture, DeadlineBodyLayer,
    DeadlineBodyService, OnBodyElapsed,
};
pub use drain::{DrainBody, DrainBodyFuture, DrainBodyLayer, DrainBodyService};
pub use outcome::{OutcomeBody, OutcomeBodyFuture, OutcomeBodyLayer, OutcomeBodyService};
pub use replay::{ReplayBody, ReplayBodyError};
pub use replay_layer::{ReplayBodyLayer, ReplayBodyService};

/// How much of one call's body is kept by default: 256 KiB.
pub const DEFAULT_BYTES_PER_CALL: usize = 256 * 1024;

/// How much all calls of one layer keep together by default: 16 MiB.
pub const DEFAULT_BYTES_IN_ALL: usize = 16 * 1024 * 1024;
