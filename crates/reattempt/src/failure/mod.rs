//! What an attempt came to: reasons, stages, verdicts, and what the server asks for.

mod builders;
mod idempotency;
mod pushback;
pub mod reason;
mod stage;
mod verdict;

pub use idempotency::Idempotency;
pub use pushback::ServerPushback;
pub use reason::{ReasonDef, RetryReason};
pub use stage::Stage;
pub use verdict::{Failure, Transparent, Verdict};
