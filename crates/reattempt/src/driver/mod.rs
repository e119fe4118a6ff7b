//! Applies what the machines decide, for both recovery layers and for simulators: throttle,
//! records, the end of a call.
//!
//! The machines return what to do and what to record. A driver asks and charges the throttle, and
//! passes the records on. What it acts on is a [`CallEffects`]: the layers' is the call's context
//! with its log and observer, a simulator's may be as small as a throttle and a few counters. So
//! the order of the gates, and what a throttle counts, pays and gets back, has one home.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use reattempt::backoff::Backoff;
//! use reattempt::driver::{CallEffects, RetryDriver};
//! use reattempt::machine::{Action, Facts, Resume};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{
//!     AttemptKind, CallDeadline, Failure, RetryThrottle, Stage, TokenBucket, Verdict, reason,
//! };
//!
//! struct Simulated {
//!     throttle: TokenBucket,
//! }
//!
//! impl CallEffects for Simulated {
//!     fn throttle(&self) -> Option<&dyn RetryThrottle> {
//!         Some(&self.throttle)
//!     }
//!     fn limit(&self) -> Option<CallDeadline> {
//!         None
//!     }
//!     fn attempt(&self) -> u32 {
//!         1
//!     }
//! }
//!
//! let strategy = MaxAttempts::new(2, Backoff::constant(Duration::from_millis(20)));
//! let call = Simulated { throttle: TokenBucket::new(10, 100)? };
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let busy = Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::Response));
//! let facts = Facts::new(start, 1, AttemptKind::Initial);
//! let mut driver = RetryDriver::default();
//! let Action::Wait(wait) = driver.failed(facts, &busy, &strategy, &call) else {
//!     panic!("a second attempt follows")
//! };
//! assert_eq!(wait.until, Some(start + Duration::from_millis(20)));
//! assert_eq!(call.throttle.milli_tokens(), Some(9000), "the failure was counted");
//! assert_eq!(driver.resume(start + Duration::from_millis(20), &call), Resume::Send);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hedge;
mod retry;

use std::time::Instant;

pub use crate::policy::throttle::{count_success, count_unsuccessful};
pub use hedge::{HedgeDriver, Permit};
pub use retry::RetryDriver;

use crate::info::{AttemptRecord, Backend};
use crate::machine::FailedAttempt;
use crate::policy::strategy::CallView;
use crate::policy::throttle::Settled;
use crate::{CallDeadline, Failure, RetryThrottle, StopReason};

/// What a driver reads of one attempt's call, and does to it.
///
/// A method that only stores something for the caller's view of the call does nothing by default. A
/// call with a throttle that has prices for single failures must keep the failure of the last
/// record that was [paid](AttemptRecord::paid) for: [`count_success`] returns the price.
pub trait CallEffects {
    /// The throttle that applies to the call.
    fn throttle(&self) -> Option<&dyn RetryThrottle>;

    /// The deadline of the call.
    fn limit(&self) -> Option<CallDeadline>;

    /// The number of the attempt, from 1.
    fn attempt(&self) -> u32;

    /// Where the attempt was sent.
    fn backend(&self) -> Option<Backend> {
        None
    }

    /// The history and the user data of the call, for its strategy.
    fn view(&self) -> &dyn CallView {
        &()
    }

    /// The attempt takes no more reports.
    fn close_slot(&self) {}

    /// An attempt failed. Its record does not say where it was [sent](Self::backend).
    fn record(&self, record: AttemptRecord) {
        let _ = record;
    }

    /// A late gate changes the record of an attempt that failed before.
    fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord))
    where
        Self: Sized,
    {
        let _ = (attempt, change);
    }

    /// A planned hedge was refused. No attempt was made, so no record shows it.
    fn hedge_refused(&self, stopped: StopReason) {
        let _ = stopped;
    }

    /// The call ended for this reason.
    fn ended(&self, stopped: StopReason) {
        let _ = stopped;
    }
}

/// The throttle counts a failed attempt, whose record gets the fill.
pub(crate) fn count(effects: &impl CallEffects, failed: &mut FailedAttempt) {
    let Some(throttle) = effects.throttle() else {
        return;
    };
    if effects.attempt() <= 1 && failed.is_final_answer() {
        throttle.first_answered();
    } else {
        count_unsuccessful(throttle, effects.attempt());
    }
    if failed.is_for_throttle() {
        if failed.counts() {
            throttle.settled(Settled::Failure(failed.failure()));
        }
        failed.milli_tokens = throttle.milli_tokens();
    }
}

/// Whether the throttle allows one more attempt. `None` is a hedge that no failure led to.
fn allows(effects: &impl CallEffects, failure: Option<&Failure>) -> bool {
    let throttle = effects.throttle();
    throttle.is_none_or(|throttle| throttle.allows(failure))
}

/// The throttle spends for an attempt that is about to be sent. False if it refuses.
fn spend(effects: &impl CallEffects, failure: Option<&Failure>) -> bool {
    let throttle = effects.throttle();
    throttle.is_none_or(|throttle| throttle.spend(failure))
}

/// The delay after this attempt ended early: its record gets the time that was really waited.
fn waited_until(effects: &impl CallEffects, now: Instant) {
    effects.amend(effects.attempt(), |record| {
        if let (Some(_), Some(ended)) = (record.delay, record.ended) {
            record.delay = Some(now.saturating_duration_since(ended));
        }
    });
}
