//! Calls that the layer leaves to another recovery layer, where there is none.

use crate::test_util::listen;
use crate::{
    AttemptReporter, ClientError, DeadlineLayer, Failure, HedgeLayer, HedgePolicy, RetryThrottle,
    RoutePolicy, TokenBucket,
};
use tower::{BoxError, ServiceBuilder};

use super::*;

fn hedging() -> Arc<RoutePolicy> {
    Arc::new(RoutePolicy::new("r").hedge(HedgePolicy::new(2, ms(100)).hedge_non_idempotent()))
}

fn retrying() -> Arc<RoutePolicy> {
    Arc::new(RoutePolicy::new("r").retry(three()))
}

/// Layers that leave the call of a policy to a layer that is not there.
enum Stack {
    Retry,
    Hedge,
    BothRetry,
}

impl Stack {
    /// Sends a request with this timeout.
    async fn send(&self, probe: &Probe, deadline: u64) -> (CallResult, RetryInfo) {
        let mut request = probe.request();
        let policy = match self {
            Self::Retry | Self::BothRetry => hedging(),
            Self::Hedge => retrying(),
        };
        request.context_mut().set_policy(policy);
        let watch = RetryInfo::track(&mut request);
        let hedge = || HedgeLayer::new(verdict, HedgePolicy::new(2, ms(100)));
        let deadline = ServiceBuilder::new().layer(DeadlineLayer::new(ms(deadline)));
        let outcome = match self {
            Self::Retry => {
                let stack = deadline.layer(retry(three())).service(probe.inner());
                stack.oneshot(request).await
            }
            Self::Hedge => {
                let stack = deadline.layer(hedge()).service(probe.inner());
                stack.oneshot(request).await
            }
            Self::BothRetry => {
                let stack = deadline.layer(retry(three())).layer(retry(three()));
                stack.service(probe.inner()).oneshot(request).await
            }
        };
        (call_result(&outcome), watch.info())
    }
}

const STACKS: [Stack; 3] = [Stack::Retry, Stack::Hedge, Stack::BothRetry];

/// The number, outcome and gate of each record.
fn records(info: &RetryInfo) -> Vec<(u32, AttemptOutcome, Option<StopReason>)> {
    let each = info.records();
    each.map(|record| (record.number, record.outcome, record.stopped))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_layer_acts_on_has_one_attempt() {
    for stack in STACKS {
        let listener = listen();
        let probe = probe([attempt(1).after(ms(3))]);
        let (call_result, info) = stack.send(&probe, 50).await;
        assert_eq!((call_result, info.attempts()), (CallResult::Answer(1), 1));
        assert_eq!(info.stopped(), Some(StopReason::Success));
        let warnings = listener.warnings();
        assert!(
            warnings[0].contains("Layer got a policy that"),
            "{warnings:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_no_layer_acts_on_is_attempt_one() {
    for stack in STACKS {
        let probe = probe([attempt(1).fails(TMPFAIL).after(ms(3)).goes_to("a")]);
        let (call_result, info) = stack.send(&probe, 50).await;
        assert_eq!((call_result, info.attempts()), (CallResult::Error(1), 1));
        let stopped = Some(StopReason::Strategy);
        assert_eq!(records(&info), [(1, AttemptOutcome::Retry, stopped)]);
        let record = info.records().next().unwrap();
        assert_eq!(record.backend.as_ref().map(|b| b.as_str()), Some("a"));
        assert_eq!(info.stopped(), stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_finds_the_attempt_that_no_layer_acts_on() {
    for stack in STACKS {
        let listener = listen();
        let probe = probe([attempt(1).hangs()]);
        let (call_result, info) = stack.send(&probe, 50).await;
        assert_eq!((call_result, info.attempts()), (CallResult::Elapsed, 1));
        let stopped = Some(StopReason::Deadline);
        assert_eq!(records(&info), [(1, AttemptOutcome::Cancelled, stopped)]);
        assert_eq!((info.stopped(), listener.warnings().len()), (stopped, 1));
    }
}

/// A retry layer that leaves the call to a hedge layer counts nothing of its own.
#[tokio::test(start_paused = true)]
async fn a_call_that_a_lower_layer_takes_up_is_counted_there() {
    let probe = probe([attempt(1).hangs(), attempt(2).after(ms(5))]);
    let mut request = probe.request();
    request.context_mut().set_policy(hedging());
    let watch = RetryInfo::track(&mut request);
    let hedge = HedgeLayer::new(verdict, HedgePolicy::new(2, ms(100)));
    let stack = ServiceBuilder::new().layer(retry(three())).layer(hedge);
    let outcome = stack.service(probe.inner()).oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert_eq!(watch.info().attempts(), 2);
}

/// R23: the throttle gets the end of a response that was committed.
#[tokio::test(start_paused = true)]
async fn a_committed_response_of_a_passed_call_ends_for_the_throttle() {
    let bucket = Arc::new(TokenBucket::new(10, 1000).unwrap());
    let mut request = Call::new(());
    let throttle = Arc::clone(&bucket) as Arc<dyn RetryThrottle>;
    request
        .context_mut()
        .set_policy(hedging())
        .set_throttle(throttle);
    let watch = RetryInfo::track(&mut request);
    let commits =
        |_: Result<&AttemptReporter, &ClientError<BoxError>>, _: &CallContext| Verdict::Committed;
    let stack = RetryLayer::new(commits, three()).layer(tower::service_fn(
        |request: Call<()>| async move {
            let context = request.context().unwrap();
            assert_eq!((context.attempt(), context.is_claimed()), (1, false));
            Ok::<_, ClientError<BoxError>>(context.reporter().follow())
        },
    ));
    let body = stack.oneshot(request).await.unwrap();
    let failure = Failure::new(TMPFAIL, crate::Stage::Response);
    body.finish(&Verdict::Retry(failure));
    assert_eq!(bucket.milli_tokens(), Some(9000));
    let info = watch.info();
    let committed = Some(StopReason::Committed);
    assert_eq!(info.attempts(), 1);
    assert_eq!(records(&info), [(1, AttemptOutcome::Committed, committed)]);
}
