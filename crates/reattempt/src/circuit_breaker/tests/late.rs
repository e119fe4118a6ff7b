//! Responses whose status comes at their end.

use super::*;
use crate::AttemptReporter;

const LOST: Failure = Failure::new(UNKNOWN, Stage::InFlight);

type Streams = Result<AttemptReporter, CircuitOpen>;

async fn call(breaker: &Arc<CircuitBreaker>, is_followed: bool) -> Streams {
    let streams = service_fn(move |call: Call<()>| async move {
        let reporter = call.context().unwrap().reporter();
        Streams::Ok(if is_followed {
            reporter.follow()
        } else {
            reporter
        })
    });
    let begins = crate::classify_fn(
        |outcome: Result<&AttemptReporter, &CircuitOpen>, _: &CallContext| match outcome {
            Ok(_) => Verdict::Committed,
            Err(_) => Verdict::Fatal(LOST),
        },
    );
    let at_once = Backoff::constant(Duration::ZERO);
    tower::ServiceBuilder::new()
        .layer(RetryLayer::new(begins, MaxAttempts::new(3, at_once)))
        .layer(CircuitBreakerLayer::new(Arc::clone(breaker), begins))
        .service(streams)
        .oneshot(Call::new(()))
        .await
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_responses_open_it() {
    let breaker = breaker();
    for _ in 0..5 {
        let reporter = call(&breaker, true).await.unwrap();
        reporter.finish(&Verdict::Retry(LOST));
    }
    assert!(matches!(breaker.state(clock::now()), CircuitState::Open(_)));
    assert!(call(&breaker, true).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_begins_well_and_ends_badly_opens_it_again() {
    let breaker = readiness::half_open().await;
    let reporter = call(&breaker, true).await.unwrap();
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
    reporter.finish(&Verdict::Retry(LOST));
    assert!(matches!(breaker.state(clock::now()), CircuitState::Open(_)));
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_no_layer_follows_closes_it() {
    let breaker = readiness::half_open().await;
    let reporter = call(&breaker, false).await.unwrap();
    reporter.finish(&Verdict::Retry(LOST));
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
}

/// A layer in between follows a redirect to another origin.
#[tokio::test(start_paused = true)]
async fn a_step_does_not_learn_from_the_end_of_the_next() {
    let (first, second) = (breaker(), breaker());
    let begins: fn(Result<&AttemptReporter, &CircuitOpen>, &CallContext) -> Verdict =
        |_, _| Verdict::Committed;
    let streams = service_fn(|call: Call<()>| async move {
        Streams::Ok(call.context().unwrap().reporter().follow())
    });
    let of = |breaker: &Arc<CircuitBreaker>| {
        CircuitBreakerLayer::new(Arc::clone(breaker), begins).layer(streams)
    };
    let both = (of(&first), of(&second));
    let redirects = service_fn(move |call: Call<()>| {
        let (first, second) = both.clone();
        async move {
            first.oneshot(call.clone()).await?;
            second.oneshot(call).await
        }
    });
    let retries = RetryLayer::new(begins, crate::strategy::NeverRetry);
    for _ in 0..5 {
        let service = retries.layer(redirects.clone());
        let reporter = service.oneshot(Call::new(())).await.unwrap();
        reporter.finish(&Verdict::Retry(LOST));
    }
    assert_eq!(first.state(clock::now()), CircuitState::Closed);
    assert!(matches!(second.state(clock::now()), CircuitState::Open(_)));
}
