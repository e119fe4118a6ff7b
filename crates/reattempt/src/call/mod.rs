//! One call: its context on the way down, and what its attempts report on the way up.

pub(crate) mod attempt_bits;
mod attempt_key;
mod carrier;
mod context;
mod has_call_context;
mod method_name;
mod pool;
mod replay;
pub(crate) mod state;
mod subject;

pub use carrier::Call;
pub use context::{AttemptReporter, CallContext, CallHandle, RetryInfoHandle};
pub use has_call_context::HasCallContext;
pub use method_name::MethodName;
pub(crate) use pool::states;
pub use pool::{Pool, SharedPool};
pub use replay::{NextAttempt, Replay};
pub use state::ConfigWaiter;
#[cfg(feature = "tokio")]
pub(crate) use state::{AtEnd, ResponseFailed};
pub use subject::CallSubject;
