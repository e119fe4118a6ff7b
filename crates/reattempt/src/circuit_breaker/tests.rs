mod fallback;
mod late;
mod readiness;
mod reserved;

use std::time::Duration;

use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;
use crate::backoff::Backoff;
use crate::failure::reason::{CIRCUIT_BREAKER_OPEN, UNKNOWN};
use crate::health::HealthPolicy;
use crate::strategy::MaxAttempts;
use crate::{
    AttemptKind, Call, Failure, HedgeLayer, HedgePolicy, RetryInfo, RetryLayer, RoundRobin,
    StopReason, Verdict,
};

/// `None` is the error of a backend, `Some` that of the breaker.
type Refused = Option<CircuitOpen>;
type Outcome = Result<&'static str, Refused>;

fn as_error(open: CircuitOpen) -> Outcome {
    Err(Some(open))
}

/// A refusal looks to it like any other error.
fn verdict(outcome: Result<&&'static str, &Refused>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Retry(Failure::new(UNKNOWN, Stage::InFlight)),
    }
}

type Classifier = fn(Result<&&'static str, &Refused>, &CallContext) -> Verdict;

fn breaker() -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker::new(HealthPolicy::standard(), clock::now()))
}

fn layer(
    breaker: &Arc<CircuitBreaker>,
) -> CircuitBreakerLayer<Classifier, fn(CircuitOpen) -> Outcome> {
    CircuitBreakerLayer::new(Arc::clone(breaker), verdict as Classifier).on_open(as_error)
}

fn retrying() -> RetryLayer<Classifier> {
    let at_once = Backoff::constant(Duration::ZERO);
    RetryLayer::new(verdict, MaxAttempts::new(3, at_once))
}

async fn send<S>(service: S) -> (Outcome, RetryInfo)
where
    S: Service<Call<()>, Response = &'static str, Error = Refused>,
{
    let mut request = Call::new(());
    let watch = RetryInfo::track(&mut request);
    let outcome = tokio::time::timeout(Duration::from_secs(30), service.oneshot(request)).await;
    (outcome.expect("it hangs"), watch.info())
}

fn reasons(info: &RetryInfo) -> Vec<&'static str> {
    let failures = info.records().filter_map(|record| record.failure);
    failures.map(|failure| failure.reason.name()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_sent_and_not_retried_at_the_same_backend() {
    let breaker = breaker();
    breaker.open();
    let never = service_fn(|_: Call<()>| async { panic!("it was sent") });
    let (outcome, info) = send(retrying().layer(layer(&breaker).layer(never))).await;
    let state = CircuitState::Open(Duration::MAX);
    assert_eq!(outcome, Err(Some(CircuitOpen { state })));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
    let failure = info.records().next().unwrap().failure.unwrap();
    assert_eq!(failure.reason, CIRCUIT_BREAKER_OPEN);
    assert_eq!((failure.stage, failure.safe), (Stage::Dispatch, true));
    assert_eq!(info.records().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn any_request_moves_on_to_a_backend_whose_circuit_is_closed() {
    let breakers = [breaker(), breaker(), breaker()];
    let replica = |(at, breaker): (usize, &Arc<CircuitBreaker>)| {
        let answer = service_fn(|_: Call<()>| async { Outcome::Ok("answer") });
        (at.to_string(), layer(breaker).layer(answer))
    };
    let backends = RoundRobin::new(breakers.iter().enumerate().map(replica)).unwrap();
    breakers[0].open();
    breakers[1].open();
    let (outcome, info) = send(retrying().layer(backends.clone())).await;
    assert_eq!(outcome, Ok("answer"));
    assert_eq!(reasons(&info), ["CIRCUIT_BREAKER_OPEN"; 2]);
    let kinds: Vec<_> = info.records().map(|record| record.kind).collect();
    assert_eq!(kinds[1..], [AttemptKind::Transparent; 2]);

    breakers[2].open();
    let (outcome, info) = send(retrying().layer(backends)).await;
    assert!(outcome.is_err());
    assert_eq!(reasons(&info), ["CIRCUIT_BREAKER_OPEN"; 3], "each once");
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

/// What a breaker below refuses is not sent, and says nothing of the circuit above it.
#[tokio::test(start_paused = true)]
async fn a_refusal_below_opens_no_circuit_above() {
    let replica = |at: usize| {
        let inner = breaker();
        if at < 5 {
            inner.open();
        }
        let answer = service_fn(|_: Call<()>| async { Outcome::Ok("answer") });
        (at.to_string(), layer(&inner).layer(answer))
    };
    let backends = RoundRobin::new((0..6).map(replica)).unwrap();
    let outer = breaker();
    let service = retrying().layer(layer(&outer).layer(backends));
    for _ in 0..2 {
        let (outcome, _) = send(service.clone()).await;
        assert_eq!(outcome, Ok("answer"));
    }
    assert_eq!(outer.state(clock::now()), CircuitState::Closed);
}

#[derive(Clone)]
struct AtLimit;

impl crate::deadline::OnElapsed<&'static str, Refused> for AtLimit {
    fn on_elapsed(&self, _: crate::Elapsed) -> Outcome {
        Err(None)
    }
}

/// An attempt's limit is between the usual time of an answer and four times that.
#[tokio::test(start_paused = true)]
async fn attempts_that_end_at_their_limit_open_it_and_others_do_not() {
    let ms = Duration::from_millis;
    for (dropped_after, limit, is_open) in [(None, ms(200), true), (Some(ms(150)), ms(250), false)]
    {
        let breaker = breaker();
        let hangs = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let silent = Arc::clone(&hangs);
        let backend = service_fn(move |_: Call<()>| {
            let hangs = silent.load(std::sync::atomic::Ordering::Relaxed);
            async move {
                tokio::time::sleep(ms(100)).await;
                if hangs {
                    std::future::pending::<()>().await;
                }
                Outcome::Ok("answer")
            }
        });
        let service = tower::ServiceBuilder::new()
            .layer(crate::AttemptDeadlineLayer::new(limit).on_elapsed(AtLimit))
            .layer(layer(&breaker))
            .service(backend);
        let one = MaxAttempts::new(1, Backoff::constant(Duration::ZERO));
        let service = RetryLayer::new(verdict as Classifier, one).layer(service);
        assert_eq!(send(service.clone()).await.0, Ok("answer"));
        hangs.store(true, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..5 {
            let call = service.clone().oneshot(Call::new(()));
            let wait = dropped_after.unwrap_or(Duration::from_secs(9));
            let _ = tokio::time::timeout(wait, call).await;
        }
        let open = matches!(breaker.state(clock::now()), CircuitState::Open(_));
        assert_eq!(open, is_open, "{limit:?}");
    }
}

/// Replicas behind a breaker each: the first one fails, and the circuit of the second is open.
fn one_fails_one_is_open()
-> impl Service<Call<()>, Response = &'static str, Error = Refused, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let replica = |at: usize| {
        let breaker = breaker();
        if at == 1 {
            breaker.open();
        }
        let fails = service_fn(|_: Call<()>| async { Outcome::Err(None) });
        (at.to_string(), layer(&breaker).layer(fails))
    };
    RoundRobin::new((0..2).map(replica)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_open_circuit_does_not_end_the_retries_at_another_backend() {
    let backends = one_fails_one_is_open();
    // Also where the first attempt is the refused one.
    for _ in 0..2 {
        let mut at_once = Call::new(());
        let context = at_once.context_mut();
        context.set_idempotency(crate::Idempotency::Idempotent);
        let watch = RetryInfo::track(&mut at_once);
        let outcome = retrying().layer(backends.clone()).oneshot(at_once).await;
        let info = watch.info();
        let sent = reasons(&info);
        let sent = sent.iter().filter(|reason| **reason == "UNKNOWN").count();
        assert_eq!(sent, 2, "{info}");
        assert_eq!(outcome, Err(None), "the backend's own failure");
        assert_eq!(info.stopped(), Some(StopReason::Attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_hedge_does_not_end_the_attempts_at_another_backend() {
    let policy = HedgePolicy::new(4, Duration::from_millis(50));
    let hedging = HedgeLayer::new(verdict as Classifier, policy);
    let mut request = Call::new(());
    let context = request.context_mut();
    context.set_idempotency(crate::Idempotency::Idempotent);
    let watch = RetryInfo::track(&mut request);
    let outcome = hedging
        .layer(one_fails_one_is_open())
        .oneshot(request)
        .await;
    let info = watch.info();
    let sent = reasons(&info);
    let sent = sent.iter().filter(|reason| **reason == "UNKNOWN").count();
    assert_eq!(
        (sent >= 2, info.stopped()),
        (true, Some(StopReason::Attempts)),
        "{info}"
    );
    assert!(outcome.is_err());
}

/// Below the recovery layer and above the breakers: a second step of the same attempt.
#[derive(Clone)]
struct TwoSteps<S>(S, Arc<CircuitBreaker>);

impl<S> Service<Call<()>> for TwoSteps<S>
where
    S: Service<Call<()>, Response = &'static str, Error = Refused> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = &'static str;
    type Error = Refused;
    type Future = std::pin::Pin<Box<dyn std::future::Future<Output = Outcome> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Call<()>) -> Self::Future {
        let (mut service, breaker) = (self.0.clone(), Arc::clone(&self.1));
        let first = self.0.call(request.clone());
        Box::pin(async move {
            first.await?;
            breaker.open();
            service.ready().await?.call(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_second_step_does_not_send_the_first_again() {
    let breaker = breaker();
    let sent = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = Arc::clone(&sent);
    let answers = service_fn(move |_: Call<()>| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async { Outcome::Ok("see other") }
    });
    let inner = layer(&breaker).layer(answers.clone());
    let to_another = layer(&self::breaker()).layer(answers);
    let backends = [
        (
            "0",
            tower::util::BoxCloneService::new(TwoSteps(inner, breaker)),
        ),
        ("1", tower::util::BoxCloneService::new(to_another)),
    ];
    let backends = RoundRobin::new(backends).unwrap();
    let (outcome, info) = send(retrying().layer(backends)).await;
    assert!(outcome.is_err());
    assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), 1);
    let failure = info.records().next().unwrap().failure.unwrap();
    assert_eq!((failure.stage, failure.safe), (Stage::InFlight, false));
}

#[tokio::test(start_paused = true)]
async fn a_refused_hedge_leaves_the_first_attempt_alone() {
    let breaker = breaker();
    let of_service = Arc::clone(&breaker);
    let opens = service_fn(move |_: Call<()>| {
        of_service.open();
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Outcome::Ok("late")
        }
    });
    let policy = HedgePolicy::new(5, Duration::from_millis(10)).hedge_non_idempotent();
    let hedge = HedgeLayer::new(verdict as Classifier, policy);
    let (outcome, info) = send(hedge.layer(layer(&breaker).layer(opens))).await;
    assert_eq!(outcome, Ok("late"));
    assert_eq!(
        reasons(&info),
        ["CIRCUIT_BREAKER_OPEN"],
        "further hedges would be refused too"
    );
}

#[tokio::test(start_paused = true)]
async fn it_opens_by_failures_and_closes_by_a_trial() {
    let breaker = breaker();
    let (works, calls) = (Arc::new(std::sync::Mutex::new(false)), Arc::new(()));
    let (of_service, counter) = (Arc::clone(&works), Arc::clone(&calls));
    let backend = service_fn(move |_: Call<()>| {
        let works = *of_service.lock().unwrap();
        let _counted = Arc::clone(&counter);
        async move { if works { Ok("answer") } else { Err(None) } }
    });
    let service = layer(&breaker).layer(backend);
    for _ in 0..5 {
        assert_eq!(send(service.clone()).await.0, Err(None));
    }
    assert!(matches!(send(service.clone()).await.0, Err(Some(_))));
    *works.lock().unwrap() = true;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(send(service.clone()).await.0, Err(Some(_))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(send(service.clone()).await.0, Ok("answer"));
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_made_for_the_refusal_may_be_a_fallback() {
    let breaker = breaker();
    breaker.open();
    let fallback = layer(&breaker).on_open(|_: CircuitOpen| Outcome::Ok("from the cache"));
    let never = service_fn(|_: Call<()>| async { panic!("it was sent") });
    let (outcome, _) = send(retrying().layer(fallback.layer(never))).await;
    assert_eq!(outcome, Ok("from the cache"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_ends_its_trial() {
    let breaker = breaker();
    let hangs = service_fn(|_: Call<()>| std::future::pending::<Outcome>());
    let mut service = layer(&breaker).layer(hangs);
    let pending = service.ready().await.unwrap().call(Call::new(()));
    drop(pending);
    assert_eq!(breaker.state(clock::now()), CircuitState::Closed);
    let mut again = std::pin::pin!(service.call(Call::new(())));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), again.as_mut())
            .await
            .is_err()
    );
}

#[derive(Debug, Default)]
struct Events(std::sync::atomic::AtomicU32);

impl crate::Observer for Events {
    fn health_changed(&self, _: &crate::health::HealthEvent) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn one_change_of_a_shared_breaker_is_one_event() {
    let breaker = breaker();
    let seen = [(); 2].map(|()| Arc::<Events>::default());
    let second = Arc::<Events>::default();
    for events in &seen {
        let any = crate::classify_fn(|_: Result<&(), &()>, _: &CallContext| Verdict::Success);
        let client = CircuitBreakerLayer::new(Arc::clone(&breaker), any);
        let client = client.observer(Arc::clone(events) as Arc<dyn crate::Observer>);
        let _ = client.observer(Arc::clone(&second) as Arc<dyn crate::Observer>);
    }
    let added = Arc::<Events>::default();
    let by_hand = Arc::clone(&added);
    breaker.on_event(move |event| crate::Observer::health_changed(&*by_hand, event));
    breaker.open();
    let counts = |events: &Arc<Events>| events.0.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        (counts(&seen[0]), counts(&seen[1]), counts(&added)),
        (1, 0, 1)
    );
    assert_eq!(counts(&second), 1, "beside the first of its layer");
}

/// An error of its own, of no other crate.
#[tokio::test(start_paused = true)]
async fn a_client_error_has_room_for_the_refusal() {
    use crate::{ClientError, ClientErrorLayer};
    let breaker = breaker();
    breaker.open();
    let any = crate::classify_fn(
        |_: Result<&(), &ClientError<std::io::Error>>, _: &CallContext| Verdict::Success,
    );
    let service = tower::ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker, any))
        .layer(ClientErrorLayer)
        .service(service_fn(|_: Call<()>| async {
            Ok::<_, std::io::Error>(())
        }));
    let error = service.oneshot(Call::new(())).await.unwrap_err();
    assert!(matches!(error, ClientError::CircuitOpen(_)), "{error}");
    assert!(error.transport().is_none() && error.elapsed().is_none());
}
