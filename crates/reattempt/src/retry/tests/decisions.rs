//! Decisions of strategies: delays, deferred decisions, which failure is returned, which strategy
//! applies.

use std::time::Duration;

use crate::{Decision, Failure, RetryStrategy, RetryView, RoutePolicy, Surface, TokenBucket};

use super::*;

type Deferrals = fn() -> Result<Option<Duration>, crate::policy::strategy::StrategyError>;

/// Decides asynchronously, after five milliseconds.
#[derive(Debug)]
struct Asks(Deferrals);

impl RetryStrategy for Asks {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        let say = self.0;
        Decision::Defer(Box::pin(async move {
            tokio::time::sleep(ms(5)).await;
            say()
        }))
    }
}

/// RFC 0049's `Future<RetryAction>`.
#[tokio::test(start_paused = true)]
async fn a_deferred_delay_runs_from_the_decision() {
    let probe = probe([attempt(1).fails(TMPFAIL).as_answer(), attempt(2)]);
    let (call_result, _) = send(&retry(Asks(|| Ok(Some(ms(10))))), &probe).await;
    assert_eq!(call_result, CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 15]);
    assert_eq!(
        probe.log().outcome_dropped(1),
        Some(5),
        "kept while the decision might return it"
    );
    assert_eq!(probe.log().future_dropped(1), Some((0, true)));
}

/// C9
#[tokio::test(start_paused = true)]
async fn a_strategy_that_fails_fails_the_call_at_once_and_never_hangs() {
    let listener = crate::test_util::listen();
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let (call_result, info) = send(&retry(Asks(|| Err("no quorum".into()))), &probe).await;
    assert_eq!((call_result, probe.log().now()), (CallResult::Error(1), 5));
    assert_eq!(info.stopped(), Some(StopReason::Strategy));
    let warnings = listener.warnings();
    assert!(
        warnings.iter().any(|said| said.contains("no quorum")),
        "{warnings:?}"
    );
}

/// M28 M29: keeps the first failure unless a later one has a code.
#[derive(Debug)]
struct FirstUnlessCoded;

impl RetryStrategy for FirstUnlessCoded {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::After(ms(10))
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(3)
    }

    fn holds(&self) -> bool {
        true
    }

    fn surface(&self, _: &Failure, new: &Failure) -> Surface {
        if new.code.is_some() {
            Surface::New
        } else {
            Surface::Held
        }
    }
}

/// M28 M29
#[tokio::test(start_paused = true)]
async fn the_caller_gets_the_failure_that_surfaces() {
    let fails = |n| attempt(n).fails(TMPFAIL).as_answer();
    let first = probe((1..=3).map(fails));
    let (call_result, _) = send(&retry(FirstUnlessCoded), &first).await;
    assert_eq!(call_result, CallResult::Answer(1));
    let coded = attempt(2).fails_fatally(TMPFAIL).code(11600);
    let last = probe([fails(1), coded]);
    let (call_result, _) = send(&retry(FirstUnlessCoded), &last).await;
    assert_eq!(call_result, CallResult::Error(2));
}

/// M22
#[tokio::test(start_paused = true)]
async fn a_readiness_error_returns_the_failure_held() {
    let steps = (1..=2).map(|n| attempt(n).fails(TMPFAIL).as_answer());
    let probe = probe(steps).ready([readiness(3).breaks()]);
    assert_eq!(
        send(&retry(FirstUnlessCoded), &probe).await.0,
        CallResult::Answer(1)
    );
}

fn stop() -> MaxAttempts {
    MaxAttempts::new(1, Backoff::constant(ms(1)))
}

#[tokio::test(start_paused = true)]
async fn a_layer_by_policy_retries_what_a_policy_says() {
    let layer: RetryLayer<Verdicts> = RetryLayer::by_policy(verdict);
    let failing = || probe((1..=9).map(|n| attempt(n).fails(TMPFAIL)));

    let without = failing();
    send(&layer, &without).await;
    assert_eq!(without.log().calls().len(), 1);

    let with = failing();
    let mut request = with.request();
    let policy = Arc::new(RoutePolicy::new("two").retry(RetryOnce));
    request.context_mut().set_policy(policy);
    send_request(&layer, &with, request).await;
    assert_eq!(with.log().calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn strategies_apply_in_the_order_caller_policy_layer() {
    let layer = retry(stop());
    let policy = Arc::new(RoutePolicy::new("two").retry(RetryOnce));
    let failing = || probe((1..=9).map(|n| attempt(n).fails(TMPFAIL)));
    let attempts = |probe: &Probe| probe.log().calls().len();

    let by_layer = failing();
    send(&layer, &by_layer).await;
    assert_eq!(attempts(&by_layer), 1);

    let by_policy = failing();
    let mut request = by_policy.request();
    request.context_mut().set_policy(Arc::clone(&policy));
    send_request(&layer, &by_policy, request).await;
    assert_eq!(attempts(&by_policy), 2);

    let by_caller = failing();
    let mut request = by_caller.request();
    request
        .context_mut()
        .set_policy(policy)
        .set_strategy(Arc::new(three()));
    send_request(&layer, &by_caller, request).await;
    assert_eq!(attempts(&by_caller), 3);
}

/// R23 C4
#[tokio::test(start_paused = true)]
async fn a_policy_of_no_recovery_sends_once_and_is_counted() {
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let mut request = probe.request();
    let policy = RoutePolicy::new("none")
        .no_recovery()
        .with_throttle(bucket.clone());
    request.context_mut().set_policy(Arc::new(policy));
    let (call_result, _) = send_request(&retry(three()), &probe, request).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(milli_tokens(&bucket), 9000);
}

fn milli_tokens(bucket: &TokenBucket) -> u64 {
    crate::RetryThrottle::milli_tokens(bucket).unwrap_or_default()
}
