//! The words of a failure: its reason, its stage, what the server asks for, and whether the request
//! may take effect twice.

mod idempotency;
mod pushback;
pub mod reason;
mod stage;

pub use idempotency::Idempotency;
pub use pushback::ServerPushback;
pub use reason::{ReasonDef, RetryReason};
pub use stage::Stage;
