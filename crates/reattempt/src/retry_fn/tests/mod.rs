mod same_as_layer;

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::*;
use crate::failure::reason::{KV_LOCKED, UNKNOWN};
use crate::policy::backoff::Backoff;
use crate::strategy::MaxAttempts;
use crate::test_util::{listen, ms};
use crate::{
    AttemptOutcome, Failure, OnDeadline, RetryInfo, ServerPushback, Stage, StopReason, TokenBucket,
    Verdict,
};

/// Attempts, ten milliseconds apart.
fn attempts(most: u32) -> MaxAttempts {
    MaxAttempts::new(most, Backoff::constant(ms(10)))
}

/// Fails the first attempts with their number.
fn fails(attempts: u32) -> impl Fn(Attempt) -> std::future::Ready<Result<u32, u32>> {
    move |attempt| {
        let number = attempt.number();
        std::future::ready(if number <= attempts {
            Err(number)
        } else {
            Ok(number)
        })
    }
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn a_function_is_called_until_it_succeeds() {
    let (began, mut times) = (Instant::now(), Vec::new());
    let answer = retry(|attempt| {
        times.push((attempt.number(), began.elapsed()));
        fails(2)(attempt)
    })
    .strategy(attempts(5))
    .await;
    assert_eq!(answer, Ok(3));
    assert_eq!(times, [(1, ms(0)), (2, ms(10)), (3, ms(20))]);
}

#[tokio::test(start_paused = true)]
async fn the_last_error_of_three_attempts_is_returned() {
    let (answer, info) = retry(fails(9)).with_info().await;
    assert_eq!((answer, info.attempts()), (Err(3), 3));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(info.count(FUNCTION_FAILED), 3);
}

#[tokio::test(start_paused = true)]
async fn a_function_may_borrow_what_its_caller_owns() {
    let (calls, name) = (Cell::new(0), String::from("cart"));
    let name = &name;
    let calls = &calls;
    let answer = retry(|_| async move {
        calls.set(calls.get() + 1);
        if calls.get() < 2 {
            Err(())
        } else {
            Ok(name.as_str())
        }
    })
    .await;
    assert_eq!((answer, calls.get()), (Ok("cart"), 2));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_first_poll() {
    let calls = AtomicU32::new(0);
    let call = retry(|_| {
        calls.fetch_add(1, Ordering::Relaxed);
        pending::<Result<(), Infallible>>()
    });
    let mut call = pin!(call.timeout(ms(50)).into_future());
    tokio::time::advance(ms(100)).await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let began = Instant::now();
    assert!(matches!(call.as_mut().await, Err(ClientError::Elapsed(_))));
    // The deadline runs from the first poll.
    assert_eq!(
        (began.elapsed(), calls.load(Ordering::Relaxed)),
        (ms(50), 1)
    );
}

/// E4
#[tokio::test(start_paused = true)]
async fn a_dropped_future_cancels_the_call() {
    struct Running<'a>(&'a AtomicU32);
    impl Drop for Running<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let running = &AtomicU32::new(0);
    let mut call = retry(|attempt| async move {
        running.fetch_add(1, Ordering::Relaxed);
        let _running = Running(running);
        if attempt.number() == 1 {
            Err(())
        } else {
            pending::<Result<(), ()>>().await
        }
    })
    .strategy(attempts(3));
    let handle = RetryInfo::track(&mut call);
    assert!(tokio::time::timeout(ms(15), call).await.is_err());
    assert_eq!(running.load(Ordering::Relaxed), 0);
    let info = handle.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (2, Some(StopReason::Cancelled))
    );
    let last = info.records().next_back().unwrap();
    assert_eq!(last.outcome, AttemptOutcome::Cancelled);
}

#[tokio::test]
async fn a_call_that_is_tracked_can_return_its_info_too() {
    let mut call = retry(|_| async { Ok::<_, ()>(()) });
    let handle = RetryInfo::track(&mut call);
    let (_, info) = call.with_info().await;
    assert_eq!((handle.info().attempts(), info.attempts()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_attempts_and_delays() {
    let strategy = attempts(9).on_deadline(OnDeadline::Cap);
    let call = retry(|attempt| async move {
        assert!(attempt.time_left() <= Some(ms(25)));
        tokio::time::sleep(ms(5)).await;
        Err::<(), _>(attempt.time_left())
    });
    let began = Instant::now();
    let (outcome, info) = call.strategy(strategy).timeout(ms(25)).with_info().await;
    // Two attempts of 5 ms, each with a delay of 10 ms, of which the second does not fit.
    let elapsed = outcome.unwrap_err().elapsed().cloned().unwrap();
    assert_eq!((began.elapsed(), elapsed.timeout), (ms(25), Some(ms(25))));
    assert_eq!((elapsed.info.attempts(), info.attempts()), (2, 2));
    assert!(!elapsed.ambiguous, "the function is idempotent");
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_does_not_fit_gives_the_functions_error() {
    let strategy = attempts(9).on_deadline(OnDeadline::GiveUp);
    let began = Instant::now();
    let outcome = retry(fails(9)).timeout(ms(15)).strategy(strategy).await;
    assert_eq!(outcome.unwrap_err().transport(), Some(&2));
    assert_eq!(began.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_throttle_refuses_retries_of_later_calls() {
    let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(2, 1000).unwrap());
    for _ in 0..2 {
        let call = retry(fails(9)).throttle(Arc::clone(&bucket));
        let (outcome, info) = call.with_info().await;
        assert_eq!((outcome, info.attempts()), (Err(1), 1));
        assert_eq!(info.stopped(), Some(StopReason::Throttled));
    }
    assert_eq!(bucket.milli_tokens(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn without_idempotency_only_unsent_attempts_are_retried() {
    for (stage, calls, stopped) in [
        (None, 1, StopReason::NotIdempotent),
        (Some(Stage::InFlight), 1, StopReason::NotIdempotent),
        (Some(Stage::Dispatch), 3, StopReason::Attempts),
    ] {
        let call = retry(|attempt| {
            if let Some(stage) = stage {
                attempt.reporter().stage(stage);
            }
            fails(9)(attempt)
        });
        let (outcome, info) = call.not_idempotent().with_info().await;
        assert_eq!((outcome, info.attempts()), (Err(calls), calls));
        assert_eq!(info.stopped(), Some(stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn a_predicate_says_which_errors_are_retried() {
    let (outcome, info) = retry(fails(9)).when(|error| *error < 2).with_info().await;
    assert_eq!((outcome, info.stopped()), (Err(2), Some(StopReason::Fatal)));
}

#[tokio::test(start_paused = true)]
async fn a_classifier_judges_successful_outcomes_too() {
    let odd = |outcome: Result<&u32, &u32>, context: &CallContext| {
        assert_eq!(outcome, Ok(&context.attempt()));
        match outcome {
            Ok(n) if n % 2 == 0 => Verdict::Success,
            _ => Verdict::Retry(Failure::new(KV_LOCKED, Stage::Response).code(7)),
        }
    };
    let (outcome, info) = retry(fails(0)).classify(odd).with_info().await;
    assert_eq!((outcome, info.count(KV_LOCKED)), (Ok(2), 1));
}

#[tokio::test(start_paused = true)]
async fn a_reported_pushback_sets_the_delay() {
    let began = Instant::now();
    let outcome = retry(|attempt| {
        let after = ServerPushback::After(ms(700));
        attempt.reporter().pushback(after);
        fails(1)(attempt)
    });
    assert_eq!(outcome.await, Ok(2));
    assert_eq!(began.elapsed(), ms(700));
}

#[derive(Debug, Default)]
struct Counts(AtomicU32, AtomicU32);

impl Observer for Counts {
    fn attempt_sent(&self, _: &CallContext) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn call_ended(&self, context: &CallContext, _: &RetryInfo) {
        let data = context.data::<u32>().copied().unwrap_or_default();
        self.1.fetch_add(data, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_the_attempts_and_the_calls_data() {
    let counts = Arc::new(Counts::default());
    let mut call = retry(fails(1)).observer(Arc::clone(&counts) as Arc<dyn Observer>);
    call.context_mut().set_data(40_u32);
    assert_eq!(call.await, Ok(2));
    let seen = [&counts.0, &counts.1].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(seen, [2, 40]);
}

#[test]
#[should_panic(expected = "`RetryFnFuture` polled after completion")]
fn a_finished_future_panics_when_it_is_polled() {
    let mut call = pin!(retry(fails(0)).into_future());
    assert!(poll_once(call.as_mut()).is_ready());
    let _ = poll_once(call.as_mut());
}

/// Without a delay, no timer is needed, and so no runtime.
#[test]
fn the_attempt_is_polled_once_per_wake() {
    let polls = Cell::new(0);
    let call = retry(|_| {
        std::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() < 3 {
                Poll::Pending
            } else {
                Poll::Ready(Ok::<_, ()>(()))
            }
        })
    });
    let mut call = pin!(call.into_future());
    for polled in 1..=3 {
        assert_eq!(poll_once(call.as_mut()).is_ready(), polled == 3);
        assert_eq!(polls.get(), polled);
    }
}

/// Compile-time checks of the types.
const _: fn() = || {
    fn is_send<T: Send>(_: T) {}
    fn send(attempt: Attempt) -> std::future::Ready<Result<u32, u32>> {
        fails(1)(attempt)
    }
    is_send(retry(send).into_future());
    is_send(retry(send).timeout(ms(1)).with_info().into_future());
};

/// A classifier that knows no error.
struct KnowsNone;

impl Classify<u32, u32> for KnowsNone {
    fn classify(&self, _: Result<&u32, &u32>, _: &CallContext) -> Verdict {
        Verdict::Fatal(Failure::new(UNKNOWN, Stage::InFlight))
    }

    fn unknown_error(&self, error: &u32, _: &Failure) -> Option<String> {
        Some(format!("got a {error}"))
    }
}

/// Each call has a layer of its own.
#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_logged_once_for_all_calls() {
    let listener = listen();
    for _ in 0..2 {
        assert_eq!(retry(fails(1)).classify(KnowsNone).await, Err(1));
    }
    assert_eq!(listener.warnings(), ["retry got a 1"]);
}
