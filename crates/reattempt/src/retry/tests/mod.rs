use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{MaxAttempts, RetryOnce};
use crate::{
    AttemptKind, AttemptOutcome, Call, CallContext, HasCallContext, RetryInfo, StopReason, Verdict,
};
use tower::{Layer, ServiceExt};

use super::*;
use crate::test_util::{
    Answer, CallResult, Fault, NeverForces, Payload, Probe, attempt, call_result, ms, probe,
    readiness, send, send_request, use_up_budget, verdict,
};

mod decisions;
mod gates;
mod order;
mod passed;
mod readiness;
mod records;
mod replay;

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

const TMPFAIL: crate::RetryReason = KV_TEMPORARY_FAILURE;

/// Three attempts, ten milliseconds apart.
fn three() -> MaxAttempts {
    MaxAttempts::new(3, Backoff::constant(ms(10)))
}

fn retry(strategy: impl crate::RetryStrategy + 'static) -> RetryLayer<Verdicts> {
    RetryLayer::new(verdict, strategy)
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_passes_unchanged_and_leaves_no_record() {
    let probe = probe([attempt(1).after(ms(3))]);
    let (call_result, info) = send(&retry(three()), &probe).await;
    assert_eq!(call_result, CallResult::Answer(1));
    assert_eq!((info.attempts(), info.retries()), (1, 0));
    assert_eq!(info.records().len(), 0);
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

/// R13
#[tokio::test(start_paused = true)]
async fn the_last_failure_is_returned_unchanged() {
    let probe = probe((1..=3).map(|n| attempt(n).fails(TMPFAIL)));
    let (call_result, info) = send(&retry(three()), &probe).await;
    assert_eq!(call_result, CallResult::Error(3));
    assert_eq!(probe.log().times(), [0, 10, 20]);
    assert_eq!(
        probe.log().kinds(),
        [AttemptKind::Initial, AttemptKind::Retry, AttemptKind::Retry]
    );
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(info.count(TMPFAIL), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failing_answer_is_returned_unchanged_too() {
    let probe = probe((1..=3).map(|n| attempt(n).fails(TMPFAIL).as_answer()));
    let (call_result, _) = send(&retry(three()), &probe).await;
    assert_eq!(call_result, CallResult::Answer(3));
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempts_future_is_dropped_before_the_delay() {
    let probe = probe([attempt(1).fails(TMPFAIL).after(ms(1)), attempt(2)]);
    assert_eq!(send(&retry(three()), &probe).await.0, CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 11]);
    assert_eq!(probe.log().future_dropped(1), Some((1, true)));
}

#[tokio::test(start_paused = true)]
async fn a_failing_answer_is_dropped_before_the_delay() {
    let failing = attempt(1).fails(TMPFAIL).as_answer().after(ms(1));
    let probe = probe([failing, attempt(2)]);
    assert_eq!(send(&retry(three()), &probe).await.0, CallResult::Answer(2));
    assert_eq!(probe.log().outcome_dropped(1), Some(1));
}

#[test]
fn success_and_retries_without_delay_touch_no_timer() {
    // Without a runtime, any timer would panic.
    let probe = probe([attempt(1).fails(TMPFAIL), attempt(2)]);
    let service = retry(RetryOnce).layer(probe.inner());
    let mut call = pin!(service.oneshot(probe.request()));
    let Poll::Ready(outcome) = poll_once(call.as_mut()) else {
        panic!("the second attempt responds at once")
    };
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
}

#[test]
fn a_call_may_move_to_another_runtime_between_its_delays() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    };
    let (first, second) = (runtime(), runtime());
    let (opens, gate) = tokio::sync::oneshot::channel::<()>();
    let gate = Arc::new(tokio::sync::Mutex::new(gate));
    let service = tower::service_fn(move |mut call: Call<()>| {
        let (number, gate) = (call.context_mut().attempt(), Arc::clone(&gate));
        async move {
            if number == 2 {
                let _ = (&mut *gate.lock().await).await;
            }
            if number < 3 { Err(number) } else { Ok(number) }
        }
    });
    let busy = crate::classify_fn(
        |outcome: Result<&u32, &u32>, _: &CallContext| match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Retry(crate::Failure::new(TMPFAIL, crate::Stage::Response)),
        },
    );
    let mut call = pin!(
        RetryLayer::new(busy, three())
            .layer(service)
            .oneshot(Call::new(()))
    );
    // The first delay ends in this runtime, and the second attempt is out.
    let early = first.block_on(async { tokio::time::timeout(ms(50), call.as_mut()).await });
    assert!(early.is_err());
    drop(first);
    opens.send(()).expect("it waits for this");
    let outcome = second.block_on(async { tokio::time::timeout(ms(50), call).await });
    assert_eq!(
        outcome.expect("the second delay ends in the other runtime"),
        Ok(3)
    );
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send + std::fmt::Debug>() {}
    service::<RetryLayer<Verdicts>>();
    service::<Retry<Probe, Verdicts>>();
    // If the inner future is `Send`, so is this one.
    future::<RetryFuture<Probe, Verdicts, Call<()>>>();
};

/// A `Deadline` above relies on its timer, so it stays where it was polled.
const _: fn() = || {
    trait Moves<Kind> {
        fn ambiguous() {}
    }
    struct WhereUnpin;
    impl<T> Moves<()> for T {}
    impl<T: Unpin> Moves<WhereUnpin> for T {}
    let _ = <RetryFuture<Probe, Verdicts, Call<()>> as Moves<_>>::ambiguous;
    let _ = <crate::hedge::HedgeFuture<Probe, Verdicts, Call<()>> as Moves<_>>::ambiguous;
    let _ = <crate::deadline::DeadlineFuture<std::future::Ready<()>, ()> as Moves<_>>::ambiguous;
};
