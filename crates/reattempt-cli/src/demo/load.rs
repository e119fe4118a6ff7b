//! The load: calls at a steady rate, whatever becomes of those before (an open loop), phase by
//! phase.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use indicatif::ProgressBar;
use reattempt::{Annotated, CallContext, RetryInfo, Stopped};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::{Service, ServiceExt};

use super::DemoError;
use super::trouble::phases;
use crate::call::attempts::{Attempt, Ending, Journal};

/// How much is asked of the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) calls: usize,
    /// Calls a second.
    pub(crate) rate: u32,
    /// What a caller waits at most, on both sides.
    pub(crate) limit: Duration,
}

impl Plan {
    /// The bucket of the throttle: large enough for bad luck, too small for an overload.
    pub(crate) fn tokens(&self) -> u32 {
        u32::try_from(self.calls / 15)
            .unwrap_or(u32::MAX)
            .clamp(30, 1000)
    }
}

/// What a caller gets.
pub(crate) type Seen = Result<(), Cow<'static, str>>;

/// What becomes of one call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The answer, or a short name for what came in its place.
    pub(crate) seen: Seen,
    /// Told by the stack, where there is one.
    pub(crate) story: Option<Story>,
}

/// What the stack tells of a call.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) info: RetryInfo,
    pub(crate) attempts: Vec<Attempt>,
}

/// One call, as it was from outside.
#[derive(Debug)]
pub(crate) struct CallRecord {
    pub(crate) number: usize,
    pub(crate) latency: Duration,
    pub(crate) seen: Seen,
    pub(crate) story: Option<Story>,
}

impl CallRecord {
    pub(crate) fn worked(&self) -> bool {
        self.seen.is_ok()
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.story
            .as_ref()
            .map_or(1, |story| story.info.attempts().max(1))
    }

    pub(crate) fn stopped(&self) -> Option<Stopped> {
        self.story.as_ref()?.info.stopped()
    }
}

/// A client under load; clones share its connections.
pub(crate) trait Target: Clone + Send + Sync + 'static {
    /// Makes the call of this number.
    fn call(&self, number: usize) -> impl Future<Output = Outcome> + Send;
}

/// The servers behind it, which change while the load goes on.
pub(crate) trait Scene {
    /// What happens right before the call of this number.
    fn before(&mut self, number: usize) -> impl Future<Output = std::io::Result<()>>;
}

/// When calls are due.
struct Pace {
    period: Duration,
    due: Instant,
}

impl Pace {
    /// How much lateness is made up for; what is beyond, a machine that was busy elsewhere does not
    /// turn into a burst.
    const MOST_LATE: Duration = Duration::from_millis(20);

    fn new(rate: u32) -> Self {
        Self {
            period: Duration::from_secs(1) / rate,
            due: Instant::now(),
        }
    }

    async fn next(&mut self) {
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
    // The first call finds servers and makes connections. No script knows its number.
    target.call(usize::MAX).await;
    let phases = phases(plan.calls, true);
    let mut pace = Pace::new(plan.rate);
    let mut calls = JoinSet::new();
    let mut records = Vec::with_capacity(plan.calls);
    for number in 0..plan.calls {
        if phases.iter().any(|phase| phase.from == number) {
            // No call of one phase meets the trouble of the next, however slow the machine is.
            while let Some(done) = calls.join_next().await {
                records.push(done?);
                progress.inc(1);
            }
            pace = Pace::new(plan.rate);
        }
        pace.next().await;
        scene.before(number).await?;
        let (target, start) = (target.clone(), Instant::now());
        calls.spawn(async move {
            let Outcome { seen, story } = target.call(number).await;
            CallRecord {
                number,
                latency: start.elapsed(),
                seen,
                story,
            }
        });
        while let Some(done) = calls.try_join_next() {
            records.push(done?);
            progress.inc(1);
        }
    }
    while let Some(done) = calls.join_next().await {
        records.push(done?);
        progress.inc(1);
    }
    records.sort_by_key(|record| record.number);
    Ok(records)
}

/// A call without the stack: the bare client and a plain timeout.
pub(crate) async fn bare(limit: Duration, call: impl Future<Output = Seen>) -> Outcome {
    let seen = match tokio::time::timeout(limit, call).await {
        Ok(seen) => seen,
        Err(_) => Err("timeout".into()),
    };
    Outcome { seen, story: None }
}

/// A call through the stack; `judge` reads the rest of the answer and says what the caller gets.
pub(crate) async fn through<S, Req, Fut>(
    stack: S,
    mut request: Req,
    judge: impl FnOnce(Result<S::Response, S::Error>) -> Fut,
) -> Outcome
where
    S: Service<Req>,
    Req: Annotated,
    Fut: Future<Output = Seen>,
{
    let watch = CallContext::watch(&mut request);
    let journal = Journal::of(&mut request);
    let seen = judge(stack.oneshot(request).await).await;
    let info = watch.info();
    let ending = match (&seen, info.stopped()) {
        (Ok(()), _) => Ending::Success,
        (Err(_), Some(Stopped::Deadline)) => Ending::Deadline,
        (Err(_), _) => Ending::Failure,
    };
    let attempts = journal.attempts(&info, ending);
    Outcome {
        seen,
        story: Some(Story { info, attempts }),
    }
}
