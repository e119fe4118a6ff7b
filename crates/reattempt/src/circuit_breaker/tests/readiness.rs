//! Services that are not ready, and who waits for them.

use super::*;

/// Not ready, or an error when it is asked.
#[derive(Clone)]
struct Unready(Poll<Result<(), Refused>>);

impl Service<Call<()>> for Unready {
    type Response = &'static str;
    type Error = Refused;
    type Future = std::future::Pending<Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.0
    }

    fn call(&mut self, _: Call<()>) -> Self::Future {
        panic!("it was not ready");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_one_refuses_at_once_what_is_not_ready() {
    let breaker = breaker();
    breaker.open();
    let mut service = layer(&breaker).layer(Unready(Poll::Pending));
    let (outcome, _) = send(service.clone()).await;
    assert!(matches!(outcome, Err(Some(_))));
    // Closed between the two: it is not sent to a service that was not asked.
    let ready = service.ready().await.unwrap();
    breaker.close();
    assert!(matches!(ready.call(Call::new(())).await, Err(Some(_))));
    let waits = tokio::time::timeout(Duration::from_secs(1), service.ready());
    assert!(waits.await.is_err(), "a closed one waits");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_become_ready_opens_it() {
    let breaker = breaker();
    let service = layer(&breaker).layer(Unready(Poll::Ready(Err(None))));
    for _ in 0..5 {
        assert_eq!(send(service.clone()).await.0, Err(None));
    }
    assert!(matches!(send(service).await.0, Err(Some(_))));
}

/// Ready once there is a permit.
#[derive(Clone)]
pub(super) struct Slow(pub(super) Arc<tokio::sync::Semaphore>);

impl Service<Call<()>> for Slow {
    type Response = &'static str;
    type Error = Refused;
    type Future = std::future::Ready<Outcome>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        let mut ready = Box::pin(Arc::clone(&self.0).acquire_owned());
        match std::future::Future::poll(ready.as_mut(), cx) {
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => {
                // This future is dropped, and its waker with it.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn call(&mut self, _: Call<()>) -> Self::Future {
        std::future::ready(Ok("answer"))
    }
}

/// A breaker that is half-open now.
pub(super) async fn half_open() -> Arc<CircuitBreaker> {
    let breaker = breaker();
    for _ in 0..5 {
        let sent = breaker.admit(clock::now()).unwrap();
        breaker.ended(sent, clock::now(), crate::health::Outcome::Failure);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(breaker.state(clock::now()), CircuitState::HalfOpen);
    breaker
}

#[tokio::test(start_paused = true)]
async fn only_one_caller_waits_for_the_backend_of_a_half_open_one() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let service = layer(&breaker).layer(Slow(Arc::clone(&gate)));
    let mut trial = service.clone();
    let mut waits = Box::pin(trial.ready());
    assert!(poll_once(&mut waits).is_pending());
    for _ in 0..3 {
        let mut other = service.clone();
        let ready = poll_once(&mut Box::pin(other.ready())).map(|ready| ready.is_ok());
        assert_eq!(ready, Poll::Ready(true), "it does not wait");
        let state = CircuitState::HalfOpen;
        let refused = other.call(Call::new(())).await;
        assert_eq!(refused, Err(Some(CircuitOpen { state })));
    }
    gate.add_permits(1);
    let answer = waits.await.unwrap().call(Call::new(())).await;
    assert_eq!(answer, Ok("answer"));
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
}

fn poll_once<F: std::future::Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut cx)
}

#[tokio::test(start_paused = true)]
async fn opened_by_hand_a_waiting_trial_is_refused() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let mut service = layer(&breaker).layer(Slow(gate));
    assert!(poll_once(&mut Box::pin(service.ready())).is_pending());
    breaker.open();
    let ready = service.ready().await.unwrap();
    let state = CircuitState::Open(Duration::MAX);
    let refused = ready.call(Call::new(())).await;
    assert_eq!(refused, Err(Some(CircuitOpen { state })));
    breaker.automatic();
    assert_eq!(breaker.state(clock::now()), CircuitState::HalfOpen);
}

/// It waited for the time of the opening, so that the next caller was the trial.
#[tokio::test(start_paused = true)]
async fn a_waiting_trial_is_refused_when_another_fails() {
    let breaker = half_open().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let mut service = layer(&breaker).layer(Slow(gate));
    assert!(poll_once(&mut Box::pin(service.ready())).is_pending());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let sent = breaker.admit(clock::now()).unwrap();
    breaker.ended(sent, clock::now(), crate::health::Outcome::Failure);
    let ready = poll_once(&mut Box::pin(service.ready())).map(|ready| ready.is_ok());
    assert_eq!(ready, Poll::Ready(true), "it does not wait");
    let refused = service.call(Call::new(())).await.unwrap_err().unwrap();
    assert!(matches!(refused.state, CircuitState::Open(_)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_caller_leaves_no_permit_with_its_service() {
    let breaker = breaker();
    let inner = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let answers = service_fn(|_: Call<()>| async { Outcome::Ok("answer") });
    let mut first = layer(&breaker).layer(inner.layer(answers));
    let mut second = first.clone();
    let ready = first.ready().await.unwrap();
    assert!(poll_once(&mut Box::pin(second.ready())).is_pending());
    breaker.open();
    assert!(matches!(ready.call(Call::new(())).await, Err(Some(_))));
    let ready = second.ready().await.unwrap();
    assert!(matches!(ready.call(Call::new(())).await, Err(Some(_))));
    breaker.close();
    // Both services are kept.
    assert_eq!(waiting(second.clone()).await.unwrap(), Ok("answer"));
    drop((first, second));
}

/// A task that waits until the service is ready, and then sends a call.
fn waiting<S>(mut service: S) -> tokio::task::JoinHandle<Outcome>
where
    S: Service<Call<()>, Response = &'static str, Error = Refused> + Send + 'static,
    S::Future: Send,
{
    let call = async move { service.ready().await?.call(Call::new(())).await };
    let limited = tokio::time::timeout(Duration::from_secs(30), call);
    tokio::spawn(async move { limited.await.expect("it hangs") })
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_are_refused_when_it_opens() {
    let breaker = breaker();
    let silent = layer(&breaker).layer(Unready(Poll::Pending));
    let callers: Vec<_> = (0..3).map(|_| waiting(silent.clone())).collect();
    let retried = tokio::spawn(send(retrying().layer(silent.clone())));
    let began = clock::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(callers.iter().all(|caller| !caller.is_finished()));
    // Another caller, of another service behind the same breaker.
    let failing = layer(&breaker).layer(service_fn(|_: Call<()>| async { Outcome::Err(None) }));
    for _ in 0..5 {
        assert_eq!(send(failing.clone()).await.0, Err(None));
    }
    for caller in callers {
        assert!(matches!(caller.await.unwrap(), Err(Some(_))));
    }
    let (outcome, info) = retried.await.unwrap();
    assert!(matches!(outcome, Err(Some(_))));
    assert_eq!(reasons(&info), ["CIRCUIT_BREAKER_OPEN"]);
    let stage = info
        .records()
        .find_map(|record| record.failure)
        .unwrap()
        .stage;
    assert_eq!(stage, Stage::Dispatch, "never sent");
    assert_eq!(clock::now() - began, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn opened_by_hand_it_refuses_callers_that_wait() {
    let breaker = breaker();
    let silent = layer(&breaker).layer(Unready(Poll::Pending));
    let (one, other) = (waiting(silent.clone()), waiting(silent));
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.abort();
    assert!(other.await.is_err());
    breaker.open();
    assert!(matches!(one.await.unwrap(), Err(Some(_))));
}

/// Between the answer that the circuit is closed and the caller's place among those that wait.
#[tokio::test(start_paused = true)]
async fn one_that_opens_while_readiness_is_asked_refuses() {
    #[derive(Clone)]
    struct Opens(Arc<CircuitBreaker>);

    impl Service<Call<()>> for Opens {
        type Response = &'static str;
        type Error = Refused;
        type Future = std::future::Pending<Outcome>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
            self.0.open();
            Poll::Pending
        }

        fn call(&mut self, _: Call<()>) -> Self::Future {
            panic!("it was not ready");
        }
    }

    let breaker = breaker();
    let (outcome, _) = send(layer(&breaker).layer(Opens(Arc::clone(&breaker)))).await;
    assert!(matches!(outcome, Err(Some(_))));
}

#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicU32);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The switch may be changed while the circuit opens, and either thread may see the
/// other's old value.
#[tokio::test(start_paused = true)]
async fn an_opening_wakes_callers_whatever_the_switch_says() {
    let breaker = breaker();
    breaker.close();
    let mut service = layer(&breaker).layer(Unready(Poll::Pending));
    let wakes = Arc::<Wakes>::default();
    let waker = std::task::Waker::from(Arc::clone(&wakes));
    let mut ask = || service.poll_ready(&mut Context::from_waker(&waker));
    let woken = || wakes.0.load(std::sync::atomic::Ordering::Relaxed);
    assert!(ask().is_pending());
    for _ in 0..5 {
        let sent = breaker.admit(clock::now()).unwrap();
        breaker.ended(sent, clock::now(), crate::health::Outcome::Failure);
    }
    assert_eq!(woken(), 1);
    assert!(ask().is_pending(), "it was closed by hand");
    breaker.automatic();
    assert_eq!(woken(), 2);
    assert!(ask().is_ready());
}
