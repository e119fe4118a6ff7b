//! A layer that sends an attempt elsewhere once a circuit breaker has refused it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// The first service, and the second one if a breaker refused the call there, or if there is no
/// answer within a second.
#[derive(Clone)]
struct Fallback<A, B>(A, B);

impl<A, B> Service<Call<()>> for Fallback<A, B>
where
    A: Service<Call<()>, Response = &'static str, Error = Refused, Future: Send>,
    B: Service<Call<()>, Response = &'static str, Error = Refused, Future: Send>,
    A::Future: 'static,
    B: Clone + Send + 'static,
{
    type Response = &'static str;
    type Error = Refused;
    type Future = Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Call<()>) -> Self::Future {
        let first = self.0.call(request.clone());
        let mut second = self.1.clone();
        Box::pin(async move {
            match tokio::time::timeout(Duration::from_secs(1), first).await {
                Ok(Err(Some(_))) | Err(_) => second.ready().await?.call(request).await,
                Ok(outcome) => outcome,
            }
        })
    }
}

/// Receives each request, and loses its connection.
#[tokio::test(start_paused = true)]
async fn a_write_that_the_fallback_received_is_sent_once() {
    let sent = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&sent);
    let lost = service_fn(move |_: Call<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Outcome::Err(None) }
    });
    let opened = breaker();
    opened.open();
    let main = layer(&opened).layer(lost.clone());
    let other = layer(&breaker()).layer(lost);
    let (_, info) = send(retrying().layer(Fallback(main, other))).await;
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    let failure = info.records().next().unwrap().failure.unwrap();
    assert_eq!((failure.stage, failure.safe), (Stage::InFlight, false));
    assert_ne!(failure.reason, CIRCUIT_BREAKER_OPEN);
}

/// The first backend has the write when its layer gives it up, and the second breaker is open.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_given_up_is_not_sent_to_another_backend() {
    let sent = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&sent);
    let hangs = service_fn(move |_: Call<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Outcome>()
    });
    let backend = || {
        let opened = breaker();
        opened.open();
        let main = layer(&breaker()).layer(hangs.clone());
        Fallback(main, layer(&opened).layer(hangs.clone()))
    };
    let backends = RoundRobin::new([("0", backend()), ("1", backend())]).unwrap();
    let (_, info) = send(retrying().layer(backends)).await;
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    let failure = info.records().next().unwrap().failure.unwrap();
    assert_eq!((failure.stage, failure.safe), (Stage::InFlight, false));
}
