//! One call: its context on the way down, and what its attempts report on the way up.

pub(crate) mod block;
mod carrier;
mod context;
pub mod findings;
mod has_call_context;
pub(crate) mod marks;
pub(crate) mod recycle;
mod replay;

pub use carrier::Call;
#[cfg(feature = "tokio")]
pub(crate) use context::ThrottleStamp;
pub use context::{AttemptReporter, CallContext, CallHandle, Conclusion, RetryInfoHandle};
pub use findings::{AttemptReport, Backend};
pub use has_call_context::HasCallContext;
pub use replay::{NextAttempt, Replay};
