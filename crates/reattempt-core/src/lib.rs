//! The vocabulary and the pure decision machines of reattempt.
//!
//! This crate uses no runtime and no I/O. It holds what the tower layers of the `reattempt` crate,
//! the protocol crates and simulators share: [reasons](reason) why an attempt failed,
//! [classifiers](Classify) that find them, [strategies](strategy) that react to them, and the
//! [machines](machine) that make each decision in one place.
//!
//! Most users depend on `reattempt`, which re-exports all of this.
//!
//! | question | type |
//! | --- | --- |
//! | why did it fail? | [`RetryReason`] |
//! | how far did it come? | [`Stage`] |
//! | what was the result? | [`Verdict`], returned by a [`Classify`] |
//! | may it take effect twice? | [`Idempotency`] |
//! | what did the server ask for? | [`ServerPushback`] |
//! | whether and when to retry? | [`RetryStrategy`], with a [`Backoff`](backoff::Backoff) |
//! | is the server overloaded? | [`RetryThrottle`] |
//! | until when? | [`TimeLimit`] |
//! | what happened? | [`RetryInfo`], of [`AttemptRecord`]s |

mod annotated;
pub mod backoff;
mod block;
mod call;
mod classify;
mod context;
mod deadline;
pub mod findings;
mod idempotency;
mod info;
pub mod machine;
mod marks;
mod observe;
pub mod policy;
mod pushback;
pub mod reason;
mod recycle;
mod replay;
mod stage;
pub mod strategy;
mod sync;
pub mod throttle;
mod verdict;

pub use annotated::Annotated;
pub use call::Call;
pub use classify::{Classify, ClassifyFn, OrElse, Override, classify_fn};
pub use context::{CallContext, CallHandle, Conclusion, Reporter, ThrottleStamp, Watch};
pub use deadline::{DeadlineScope, Elapsed, OnDeadline, TimeLimit};
pub use findings::{Backend, Findings};
pub use idempotency::Idempotency;
pub use info::{AttemptKind, AttemptOutcome, AttemptRecord, MOST_RECORDS, RetryInfo, Stopped};
pub use observe::Observer;
pub use policy::{HedgeDelay, HedgePolicy, Recovery, Route, RoutePolicy, Routes};
pub use pushback::ServerPushback;
pub use reason::{ReasonDef, RetryReason};
pub use replay::{NextAttempt, Replay};
pub use stage::Stage;
pub use strategy::{Decision, RetryStrategy, RetryView, Surface};
pub use throttle::{HedgeBudget, RetryThrottle, TokenBucket};
pub use verdict::{Failure, Transparent, Verdict};
