//! A layer that sends an attempt elsewhere once a circuit breaker has refused it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use tower::ServiceBuilder;

use super::*;
use crate::admission::{Admission, OnRefused, Refused as NotAdmitted};
use crate::deadline::OnElapsed;
use crate::policy::{EndedAttempt, HedgeDelay, HedgeView};
use crate::throttle::Settled;
use crate::{
    AdmissionLayer, AttemptDeadlineLayer, Elapsed, RetryThrottle, ThrottleLayer, TokenBucket,
};

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

fn instead(_: CircuitOpen) -> Outcome {
    Ok("fallback")
}

/// Counts what it is fed.
#[derive(Debug, Default)]
struct Fed(AtomicU32);

impl HedgeDelay for Fed {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    fn learns(&self) -> bool {
        true
    }

    fn ended(&self, _: &EndedAttempt) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The backend fails once, which opens the circuit if `opens`; then it works.
fn recovers(
    breaker: &Arc<CircuitBreaker>,
    opens: bool,
) -> impl Service<Call<()>, Response = &'static str, Error = Refused, Future: Send> + Clone {
    let (sent, breaker) = (Arc::new(AtomicU32::new(0)), Arc::clone(breaker));
    service_fn(move |_: Call<()>| {
        let first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        if first && opens {
            breaker.open();
        }
        async move { if first { Err(None) } else { Ok("server") } }
    })
}

fn idempotent() -> Call<()> {
    let mut request = Call::new(());
    request
        .context_mut()
        .set_idempotency(crate::Idempotency::Idempotent);
    request
}

#[tokio::test(start_paused = true)]
async fn a_fallback_gives_a_throttle_nothing_back() {
    for (opens, outcome, tokens) in [(false, "server", 9_100), (true, "fallback", 9_000)] {
        let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
        let opened = breaker();
        let fallback: fn(CircuitOpen) -> Outcome = instead;
        let stack = ServiceBuilder::new()
            .layer(ThrottleLayer::new(bucket.clone()))
            .layer(retrying())
            .layer(layer(&opened).on_open(fallback))
            .service(recovers(&opened, opens));
        assert_eq!(stack.clone().oneshot(idempotent()).await, Ok(outcome));
        assert_eq!(bucket.milli_tokens(), Some(tokens), "after a retry");
        let tokens = if opens { tokens } else { tokens + 100 };
        assert_eq!(stack.oneshot(idempotent()).await, Ok(outcome));
        assert_eq!(bucket.milli_tokens(), Some(tokens), "at the first attempt");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_teaches_a_hedge_delay_nothing() {
    for (opens, fed) in [(false, 1), (true, 0)] {
        let delay = Arc::new(Fed::default());
        let opened = breaker();
        if opens {
            opened.open();
        }
        let fallback: fn(CircuitOpen) -> Outcome = instead;
        let policy = HedgePolicy::with_delay(2, Arc::<Fed>::clone(&delay));
        let works = service_fn(|_: Call<()>| async { Outcome::Ok("server") });
        let stack = ServiceBuilder::new()
            .layer(HedgeLayer::new(verdict as Classifier, policy))
            .layer(layer(&opened).on_open(fallback))
            .service(works);
        assert!(stack.oneshot(idempotent()).await.is_ok());
        assert_eq!(delay.0.load(Ordering::Relaxed), fed);
    }
}

#[derive(Clone)]
struct AsNone;

impl OnRefused<&'static str, Refused> for AsNone {
    fn on_refused(&self, _: NotAdmitted) -> Outcome {
        Err(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_not_accepted_by_a_server() {
    for (opens, accepted) in [(false, 1), (true, 0)] {
        let admission = Arc::new(Admission::default());
        let opened = breaker();
        if opens {
            opened.open();
        }
        let fallback: fn(CircuitOpen) -> Outcome = instead;
        let works = service_fn(|_: Call<()>| async { Outcome::Ok("server") });
        let stack = ServiceBuilder::new()
            .layer(AdmissionLayer::new(Arc::clone(&admission)).on_refused(AsNone))
            .layer(retrying())
            .layer(layer(&opened).on_open(fallback))
            .service(works);
        assert!(stack.oneshot(idempotent()).await.is_ok());
        assert_eq!(admission.seen(), (accepted, accepted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_below_closes_no_circuit() {
    let (outer, inner) = (breaker(), breaker());
    for _ in 0..5 {
        let fails = service_fn(|_: Call<()>| async { Outcome::Err(None) });
        let _ = layer(&outer).layer(fails).oneshot(idempotent()).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    inner.open();
    let fallback: fn(CircuitOpen) -> Outcome = instead;
    let works = service_fn(|_: Call<()>| async { Outcome::Ok("server") });
    let stack = ServiceBuilder::new()
        .layer(retrying())
        .layer(layer(&outer))
        .layer(layer(&inner).on_open(fallback))
        .service(works);
    assert_eq!(stack.clone().oneshot(idempotent()).await, Ok("fallback"));
    assert_eq!(outer.state(clock::now()), CircuitState::HalfOpen);
    inner.automatic();
    assert_eq!(stack.oneshot(idempotent()).await, Ok("server"));
    assert_eq!(outer.state(clock::now()), CircuitState::Closed);
}

impl OnElapsed<&'static str, Refused> for AsNone {
    fn on_elapsed(&self, _: Elapsed) -> Outcome {
        Err(None)
    }
}

/// The first service passes the limit of the attempt, and the second one answers.
#[tokio::test(start_paused = true)]
async fn an_answer_after_a_limit_that_passed_is_a_servers() {
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let failure = Failure::new(UNKNOWN, Stage::Response);
    bucket.settled(Settled::Failure(&failure));
    let hangs = service_fn(|_: Call<()>| std::future::pending::<Outcome>());
    let hangs = AttemptDeadlineLayer::new(Duration::from_millis(10))
        .on_elapsed(AsNone)
        .layer(hangs);
    let either = service_fn(move |request: Call<()>| {
        let hangs = hangs.clone();
        async move { hangs.oneshot(request).await.or(Ok("server")) }
    });
    let stack = ServiceBuilder::new()
        .layer(ThrottleLayer::new(bucket.clone()))
        .layer(retrying())
        .service(either);
    assert_eq!(stack.oneshot(idempotent()).await, Ok("server"));
    assert_eq!(bucket.milli_tokens(), Some(9_100));
}

/// The same where the layer of the limit makes a response.
#[tokio::test(start_paused = true)]
async fn a_response_made_at_a_limit_is_not_a_servers() {
    #[derive(Clone)]
    struct Late;
    impl OnElapsed<&'static str, Refused> for Late {
        fn on_elapsed(&self, _: Elapsed) -> Outcome {
            Ok("late")
        }
    }
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let failure = Failure::new(UNKNOWN, Stage::Response);
    bucket.settled(Settled::Failure(&failure));
    let delay = Arc::new(Fed::default());
    let policy = HedgePolicy::with_delay(2, Arc::<Fed>::clone(&delay));
    let hangs = service_fn(|_: Call<()>| std::future::pending::<Outcome>());
    let stack = ServiceBuilder::new()
        .layer(ThrottleLayer::new(bucket.clone()))
        .layer(HedgeLayer::new(verdict as Classifier, policy))
        .layer(AttemptDeadlineLayer::new(Duration::from_millis(10)).on_elapsed(Late))
        .service(hangs);
    assert_eq!(stack.oneshot(idempotent()).await, Ok("late"));
    assert_eq!(bucket.milli_tokens(), Some(9_000));
    assert_eq!(delay.0.load(Ordering::Relaxed), 0, "it was pending");
}
