//! A scripted service for tests: the script sets the result of each attempt, and the test fails if
//! a layer violates tower's contract.
//!
//! ```
//! use reattempt::backoff::Backoff;
//! use reattempt::reason::KV_TEMPORARY_FAILURE;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::test_util::{CallResult, attempt, ms, probe, call_result, verdict};
//! use reattempt::RetryLayer;
//! use tower::{Layer, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // Your own strategy goes here. Time is tokio's, so a paused clock makes the test instant.
//! let layer = RetryLayer::new(verdict, MaxAttempts::new(3, Backoff::constant(ms(10))));
//! let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE).after(ms(1)), attempt(2)]);
//! let outcome = layer.layer(probe.inner()).oneshot(probe.request()).await;
//! assert_eq!(call_result(&outcome), CallResult::Answer(2));
//! assert_eq!(probe.log().times(), [0, 11]);
//! # }
//! ```
//!
//! It panics on a call without readiness (also of a fresh clone that was not polled), on readiness
//! that was held while virtual time passed, and on an attempt that is not in the script. A probe
//! serves one call: for several make several, and share what they have in common (a throttle).

mod failing_call;
mod listen;
mod log;
mod script;
mod service;

use std::time::Duration;

use crate::failure::reason::UNKNOWN;
use crate::{CallContext, Classify, Elapsed, Failure, Stage, Verdict};

pub use failing_call::FailingCall;
pub use listen::{Listener, listen};
pub use log::{Log, Seen};
pub use script::{Readiness, Step, attempt, readiness};
pub use service::{Payload, Probe, ProbeFuture, probe};

use log::Note;
#[cfg(test)]
use {
    crate::{Call, RetryInfo},
    tower::{Layer, Service, ServiceExt},
};

/// `n` milliseconds.
#[must_use]
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Uses up tokio's budget of this poll, as other futures of a task may.
#[cfg(test)]
pub(crate) fn use_up_budget(cx: &mut std::task::Context<'_>) {
    let consumes = || Box::pin(tokio::task::coop::consume_budget());
    while consumes().as_mut().poll(cx).is_ready() {}
}

/// The result of an attempt; records when it is dropped.
#[derive(Debug)]
pub struct Answer {
    /// The attempt that returned it.
    pub attempt: u32,
    verdict: Verdict,
    _note: Note,
}

/// The probe's error.
#[derive(Debug)]
pub enum Fault {
    /// An attempt failed.
    Server(Answer),
    /// The service will never be ready again.
    Broken,
    /// A deadline passed.
    Elapsed(Elapsed),
}

impl From<Elapsed> for Fault {
    fn from(elapsed: Elapsed) -> Self {
        Self::Elapsed(elapsed)
    }
}

/// The result of a call, as its caller received it, in comparable form. Made by [`call_result`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The response of this attempt; its verdict may be a failure.
    Answer(u32),
    /// The error of this attempt.
    Error(u32),
    /// The service failed.
    Broken,
    /// The deadline passed.
    Elapsed,
}

/// Which attempt's response or error the call returned, or what else ended it.
#[must_use]
pub const fn call_result(outcome: &Result<Answer, Fault>) -> CallResult {
    match outcome {
        Ok(answer) => CallResult::Answer(answer.attempt),
        Err(Fault::Server(answer)) => CallResult::Error(answer.attempt),
        Err(Fault::Broken) => CallResult::Broken,
        Err(Fault::Elapsed(_)) => CallResult::Elapsed,
    }
}

/// Sends one request through the layer: its result, and what became of it.
#[cfg(test)]
pub(crate) async fn send<L>(layer: &L, probe: &Probe) -> (CallResult, RetryInfo)
where
    L: Layer<Probe, Service: Service<Call<Payload>, Response = Answer, Error = Fault>>,
{
    send_request(layer, probe, probe.request()).await
}

#[cfg(test)]
pub(crate) async fn send_request<L>(
    layer: &L,
    probe: &Probe,
    mut request: Call<Payload>,
) -> (CallResult, RetryInfo)
where
    L: Layer<Probe, Service: Service<Call<Payload>, Response = Answer, Error = Fault>>,
{
    let watch = RetryInfo::track(&mut request);
    let outcome = layer.layer(probe.inner()).oneshot(request).await;
    (call_result(&outcome), watch.info())
}

/// The error of a deadline.
///
/// # Panics
/// If no deadline passed.
#[must_use]
pub fn elapsed(outcome: Result<Answer, Fault>) -> Elapsed {
    match outcome {
        Err(Fault::Elapsed(elapsed)) => elapsed,
        other => panic!("no deadline passed, but {other:?}"),
    }
}

/// The classifier of the probe's results: the verdict from the script. An attempt that exceeded its
/// own deadline may be retried if the request is idempotent.
#[must_use]
pub fn verdict(outcome: Result<&Answer, &Fault>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(answer) | Err(Fault::Server(answer)) => answer.verdict,
        Err(Fault::Elapsed(_)) => Verdict::Retry(Failure::new(UNKNOWN, Stage::InFlight)),
        Err(Fault::Broken) => Verdict::Fatal(Failure::new(UNKNOWN, Stage::Dispatch)),
    }
}

/// As [`verdict`], from a classifier that never forces an attempt past the maximum.
#[derive(Clone, Copy, Debug)]
pub struct NeverForces;

impl Classify<Answer, Fault> for NeverForces {
    fn classify(&self, outcome: Result<&Answer, &Fault>, context: &CallContext) -> Verdict {
        verdict(outcome, context)
    }

    fn may_force(&self) -> bool {
        false
    }
}
