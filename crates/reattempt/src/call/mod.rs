//! One call: its context on the way down, and what its attempts report on the way up.

mod annotated;
pub(crate) mod block;
mod carrier;
mod context;
pub mod findings;
pub(crate) mod marks;
pub(crate) mod recycle;
mod replay;

pub use annotated::Annotated;
pub use carrier::Call;
pub use context::{CallContext, CallHandle, Conclusion, Reporter, ThrottleStamp, Watch};
pub use findings::{Backend, Findings};
pub use replay::{NextAttempt, Replay};
