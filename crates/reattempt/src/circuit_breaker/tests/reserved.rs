//! The trial of a half-open circuit between readiness and request.

use super::readiness::{Slow, half_open};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_ready_and_never_sent_decides_nothing() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let service = layer(&breaker).layer(Slow(gate));
    let mut unused = service.clone();
    let _ = unused.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(breaker.admit(clock::now()).is_err(), "it has the trial");
    drop(unused);
    assert_eq!(breaker.state(clock::now()), CircuitState::HalfOpen);
    assert_eq!(send(service).await.0, Ok("answer"));
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
}

/// Its silence would be a failure, had it begun with the reservation.
#[tokio::test(start_paused = true)]
async fn a_reserved_trial_is_measured_from_when_it_is_sent() {
    let breaker = half_open().await;
    let hangs = service_fn(|_: Call<()>| std::future::pending::<Outcome>());
    let mut service = layer(&breaker).layer(hangs);
    let ready = service.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let trial = ready.call(Call::new(()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        breaker.admit(clock::now()).is_err(),
        "it hangs for three seconds, not six"
    );
    drop(trial);
    assert!(matches!(breaker.state(clock::now()), CircuitState::Open(_)));
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_ready_is_refused_once_it_is_opened() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let mut service = layer(&breaker).layer(Slow(gate));
    let ready = service.ready().await.unwrap();
    breaker.open();
    let state = CircuitState::Open(Duration::MAX);
    let refused = ready.call(Call::new(())).await;
    assert_eq!(refused, Err(Some(CircuitOpen { state })));
    breaker.automatic();
    assert_eq!(breaker.state(clock::now()), CircuitState::HalfOpen);
    assert_eq!(send(service).await.0, Ok("answer"), "the trial is free");
}

/// It is not waited for, and does not come beside the trial that took its place.
#[tokio::test(start_paused = true)]
async fn a_trial_that_was_replaced_is_refused() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let mut service = layer(&breaker).layer(Slow(gate));
    let ready = service.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let sent = breaker.admit(clock::now()).unwrap();
    let state = CircuitState::HalfOpen;
    let refused = ready.call(Call::new(())).await;
    assert_eq!(refused, Err(Some(CircuitOpen { state })));
    breaker.ended(sent, clock::now(), crate::health::Outcome::Failure);
    assert!(matches!(breaker.state(clock::now()), CircuitState::Open(_)));
}
