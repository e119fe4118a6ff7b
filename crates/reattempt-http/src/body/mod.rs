//! Bodies: replayed, bounded in time, classified by their end, and drained when unwanted.

mod budget;
mod buffer;
mod cursors;
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
pub use replay::ReplayBody;
pub use replay_layer::{ReplayBodyLayer, ReplayBodyService};

/// The default buffer limit of one call: 256 KiB.
pub const DEFAULT_BYTES_PER_CALL: usize = 256 * 1024;

/// The default buffer limit of all calls of one layer together: 16 MiB.
pub const DEFAULT_BYTES_IN_ALL: usize = 16 * 1024 * 1024;
