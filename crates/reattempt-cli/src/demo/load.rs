//! The load: calls at a steady rate, independent of earlier calls (an open loop), phase by phase.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use indicatif::ProgressBar;
use reattempt::{ClientError, HasCallContext, RetryInfo, StopReason};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::{Service, ServiceExt};

use super::DemoError;
use super::trouble::phases;
use crate::call::attempts::{Attempt, Ending, Journal};

/// The size of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) calls: usize,
    /// Calls per second.
    pub(crate) rate: u32,
    /// The timeout of a call, on both sides.
    pub(crate) limit: Duration,
}

impl Plan {
    /// How long it takes.
    pub(crate) fn seconds(&self) -> f64 {
        // Between phases, the demo waits for the last calls.
        self.calls as f64 / f64::from(self.rate) + 0.5
    }

    /// The size of the throttle's bucket: large enough for random failures, too small for an
    /// overload.
    pub(crate) fn tokens(&self) -> u32 {
        u32::try_from(self.calls / 15)
            .unwrap_or(u32::MAX)
            .clamp(30, 1000)
    }
}

/// The result for a caller.
pub(crate) type Seen = Result<(), Cow<'static, str>>;

/// The outcome of one call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The answer, or a short name for the failure.
    pub(crate) seen: Seen,
    /// How many attempts were sent.
    pub(crate) attempts: u32,
    /// Reported by the stack, if there is one.
    pub(crate) story: Option<Story>,
}

/// The stack's report on a call.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) info: RetryInfo,
    pub(crate) attempts: Vec<Attempt>,
}

/// One call, as seen by its caller.
#[derive(Debug)]
pub(crate) struct CallRecord {
    pub(crate) number: usize,
    pub(crate) latency: Duration,
    pub(crate) outcome: Outcome,
}

impl CallRecord {
    pub(crate) fn worked(&self) -> bool {
        self.outcome.seen.is_ok()
    }

    pub(crate) fn stopped(&self) -> Option<StopReason> {
        self.outcome.story.as_ref()?.info.stopped()
    }
}

/// A client under load; clones share its connections.
pub(crate) trait Target: Clone + Send + Sync + 'static {
    /// Makes the call with this number.
    fn call(&self, number: usize) -> impl Future<Output = Outcome> + Send;
}

impl<F, Fut> Target for F
where
    F: Fn(usize) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send,
{
    fn call(&self, number: usize) -> impl Future<Output = Outcome> + Send {
        self(number)
    }
}

/// The servers of a target, which change during the load.
pub(crate) trait Scene {
    /// Runs directly before the call with this number.
    fn before(&mut self, number: usize) -> impl Future<Output = std::io::Result<()>>;
}

/// The times at which calls are due.
pub(crate) struct Pace {
    period: Duration,
    due: Instant,
}

impl Pace {
    /// The maximum delay that is caught up. More would turn a pause of the machine into a burst.
    const MOST_LATE: Duration = Duration::from_millis(20);

    pub(crate) fn new(rate: u32) -> Self {
        Self {
            period: Duration::from_secs(1) / rate,
            due: Instant::now(),
        }
    }

    pub(crate) async fn next(&mut self) {
        sleep_until(self.due).await;
        let late = self.due.elapsed();
        self.due += self.period + late.saturating_sub(Self::MOST_LATE);
    }
}

/// Makes all calls of the plan and waits for each of them.
pub(crate) async fn drive<T: Target>(
    plan: &Plan,
    target: T,
    scene: &mut impl Scene,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    // The first call discovers servers and opens connections. No script matches its number.
    target.call(usize::MAX).await;
    let phases = phases(plan.calls, true);
    let mut pace = Pace::new(plan.rate);
    let mut calls = JoinSet::new();
    let mut records = Vec::with_capacity(plan.calls);
    for number in 0..plan.calls {
        if phases.iter().any(|phase| phase.from == number) {
            // Calls of one phase end before the next phase starts, so that phases do not mix on a
            // slow machine.
            records.extend(ended(&mut calls).await?);
            pace = Pace::new(plan.rate);
        }
        pace.next().await;
        scene.before(number).await?;
        calls.spawn(recorded(target.clone(), number, progress.clone()));
    }
    records.extend(ended(&mut calls).await?);
    Ok(records)
}

/// Waits for each of these calls, and puts them in order.
pub(crate) async fn ended(calls: &mut JoinSet<CallRecord>) -> Result<Vec<CallRecord>, DemoError> {
    let mut records = Vec::with_capacity(calls.len());
    while let Some(done) = calls.join_next().await {
        records.push(done?);
    }
    records.sort_by_key(|record| record.number);
    Ok(records)
}

/// Makes a call, and times it.
pub(crate) async fn recorded<T: Target>(
    target: T,
    number: usize,
    progress: ProgressBar,
) -> CallRecord {
    let start = Instant::now();
    let outcome = target.call(number).await;
    let latency = start.elapsed();
    progress.inc(1);
    CallRecord {
        number,
        latency,
        outcome,
    }
}

/// A call without the stack: the bare client with a plain timeout.
pub(crate) async fn bare(limit: Duration, call: impl Future<Output = Seen>) -> Outcome {
    let seen = match tokio::time::timeout(limit, call).await {
        Ok(seen) => seen,
        Err(_) => Err("timeout".into()),
    };
    Outcome {
        seen,
        attempts: 1,
        story: None,
    }
}

/// The result of a preset for its caller; `seen` reads what the transport returned.
pub(crate) fn of_preset<Res, E>(
    outcome: &Result<Res, ClientError<E>>,
    seen: impl FnOnce(Result<&Res, &E>) -> Seen,
) -> Seen {
    match outcome {
        Ok(answer) => seen(Ok(answer)),
        Err(ClientError::Transport(error)) => seen(Err(error)),
        Err(ClientError::Elapsed(_)) => Err("timeout".into()),
        Err(_) => Err("not sent".into()),
    }
}

/// A call through the stack; `judge` reads the rest of the answer and returns the caller's result.
pub(crate) async fn through<S, Req, Fut>(
    stack: S,
    mut request: Req,
    judge: impl FnOnce(Result<S::Response, S::Error>) -> Fut,
) -> Outcome
where
    S: Service<Req>,
    Req: HasCallContext,
    Fut: Future<Output = Seen>,
{
    let watch = RetryInfo::track(&mut request);
    let journal = Journal::of(&mut request);
    let seen = judge(stack.oneshot(request).await).await;
    let info = watch.info();
    let ending = match (&seen, info.stopped()) {
        (Ok(()), _) => Ending::Success,
        (Err(_), Some(StopReason::Deadline)) => Ending::Deadline,
        (Err(_), _) => Ending::Failure,
    };
    let attempts = journal.attempts(&info, ending, Instant::now());
    Outcome {
        seen,
        attempts: info.attempts().max(1),
        story: Some(Story { info, attempts }),
    }
}
