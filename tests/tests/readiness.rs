//! tower's readiness contract through whole stacks, and around services that hold permits.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use reattempt::ConfigWaiter;
use reattempt::admission::{Admission, Criticality, Refused};
use reattempt::backoff::{Backoff, Randomness};
use reattempt::config_poll::{ConfigPollLayer, StaleConfig};
use reattempt::reason::KV_TEMPORARY_FAILURE;
use reattempt::strategy::{MaxAttempts, RetryOnce};
use reattempt::test_util::{
    Answer, CallResult, Fault, Payload, Probe, Step, attempt, call_result, ms, probe, readiness,
    verdict,
};
use reattempt::{
    AdmissionLayer, Call, CallContext, DeadlineLayer, HedgeLayer, HedgePolicy, PushbackLayer,
    RetryLayer, RouteLayer, RoutePolicy, ServerPushback, ThrottleLayer, TokenBucket, Verdict,
};
use tower::buffer::BufferLayer;
use tower::limit::ConcurrencyLimitLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

fn retry() -> RetryLayer<Verdicts> {
    RetryLayer::new(verdict, MaxAttempts::new(3, Backoff::constant(ms(10))))
}

fn hedge() -> HedgeLayer<Verdicts> {
    HedgeLayer::new(verdict, HedgePolicy::new(3, ms(10)).hedge_non_idempotent())
}

fn fails(n: u32) -> Step {
    attempt(n).fails(KV_TEMPORARY_FAILURE).after(ms(1))
}

#[derive(Clone, Debug)]
struct Silent;

impl<Req> StaleConfig<Req, Answer, Fault> for Silent {
    type Note = ();
    fn note(&self, _: &Req) {}
    fn check(&self, (): (), _: Result<&Answer, &Fault>) -> Option<ConfigWaiter> {
        None
    }
}

/// The whole documented stack around this service.
fn house<S>(
    inner: S,
) -> impl Service<Call<Payload>, Response = Answer, Error = Fault, Future: Send> + Clone
where
    S: Service<Call<Payload>, Response = Answer, Error = Fault, Future: Send>
        + Clone
        + Send
        + 'static,
{
    let bucket = TokenBucket::new(10, 100).unwrap();
    ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("all"))))
        .layer(DeadlineLayer::new(ms(1000)))
        .layer(ThrottleLayer::new(Arc::new(bucket)))
        .layer(retry())
        .layer(HedgeLayer::by_policy(verdict as Verdicts))
        .layer(PushbackLayer::new(
            |_: Result<&Answer, &Fault>| -> Option<ServerPushback> { None },
        ))
        .layer(ConfigPollLayer::new(Silent))
        .service(inner)
}

fn poll_ready<S: Service<Call<Payload>>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    service.poll_ready(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn every_layer_hands_on_the_readiness_of_the_service_below() {
    let probe = probe([attempt(1)]).ready([readiness(1).after(ms(30))]);
    let mut service = house(probe.inner());
    assert!(poll_ready(&mut service).is_pending());
    tokio::time::sleep(ms(30)).await;
    assert!(poll_ready(&mut service).is_ready());
    let outcome = service.call(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
    assert_eq!(probe.log().readied(), 1, "nothing else was made ready");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_readiness_passes_unchanged() {
    let probe = probe([]).ready([readiness(1).breaks()]);
    let outcome = house(probe.inner()).oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Broken);
}

#[tokio::test(start_paused = true)]
async fn through_the_whole_stack_readiness_follows_each_delay() {
    let slow = [readiness(2).after(ms(3)), readiness(3).after(ms(4))];
    let probe = probe([fails(1), fails(2), attempt(3)]).ready(slow);
    let outcome = house(probe.inner()).oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(3));
    assert_eq!(probe.log().times(), [0, 14, 29]);
    assert_eq!(probe.log().readied(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_service_becomes_ready_while_its_first_call_is_in_flight() {
    let probe = probe([fails(1), attempt(2)]);
    let mut service = house(probe.inner());
    let first = service.ready().await.unwrap().call(probe.request());
    assert!(matches!(poll_ready(&mut service), Poll::Ready(Ok(()))));
    assert_eq!(call_result(&first.await), CallResult::Answer(2));
}

/// E1: a pool of one connection does not deadlock with the failed attempt.
#[tokio::test(start_paused = true)]
async fn a_permit_is_given_back_before_the_next_attempt_wants_one() {
    let by_error: fn(u32) -> Step = fails;
    for fails in [by_error, |n| fails(n).as_answer()] {
        let probe = probe([fails(1), fails(2), attempt(3)]);
        let limited = ConcurrencyLimitLayer::new(1).layer(probe.inner());
        let outcome = house(limited).oneshot(probe.request()).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(3));
        assert_eq!(probe.log().times(), [0, 11, 22]);
    }
}

/// A permit is not held during a back-off: another call runs in the meantime.
#[tokio::test(start_paused = true)]
async fn two_calls_share_one_permit_while_one_of_them_backs_off() {
    let one = probe([fails(1), attempt(2)]);
    let two = probe([attempt(1).after(ms(5))]);
    let permits = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let through = |probe: &Probe| {
        let limited = permits.layer(probe.inner());
        retry().layer(limited).oneshot(probe.request())
    };
    let (of_one, of_two) = tokio::join!(through(&one), through(&two));
    assert_eq!(call_result(&of_one), CallResult::Answer(2));
    assert_eq!(call_result(&of_two), CallResult::Answer(1));
    assert_eq!(
        (one.log().times(), two.log().times()),
        (vec![0, 11], vec![1])
    );
}

/// The service is kept, as a server keeps one for each connection.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_admitted_gives_its_permit_back() {
    let admission = Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)));
    (0..10).for_each(|_| admission.ended(Criticality::CRITICAL, false));
    assert!(admission.admit(Criticality::CRITICAL).is_ok(), "the probe");
    let probe = probe([attempt(1)]);
    let limited = tower::limit::GlobalConcurrencyLimitLayer::new(1).layer(probe.inner());
    let mut kept = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission))
        .map_err(|fault: Fault| BoxError::from(format!("{fault:?}")))
        .service(limited.clone());
    let ready = ServiceExt::<Call<Payload>>::ready(&mut kept).await;
    let refused = ready.unwrap().call(probe.request()).await;
    assert!(refused.unwrap_err().is::<Refused>());
    let next = limited.oneshot(probe.request());
    let outcome = tokio::time::timeout(ms(10), next).await;
    assert_eq!(
        call_result(&outcome.expect("the permit")),
        CallResult::Answer(1)
    );
}

#[tokio::test(start_paused = true)]
async fn hedges_that_find_no_permit_never_hold_up_the_first_attempt() {
    let probe = probe([attempt(1).after(ms(50))]);
    let limited = ConcurrencyLimitLayer::new(1).layer(probe.inner());
    let outcome = hedge().layer(limited).oneshot(probe.request()).await;
    assert_eq!(
        (call_result(&outcome), probe.log().now()),
        (CallResult::Answer(1), 50)
    );
    assert_eq!(probe.log().times(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_takes_the_permit_of_the_attempt_that_failed() {
    let probe = probe([fails(1).after(ms(25)), attempt(2)]);
    let limited = ConcurrencyLimitLayer::new(1).layer(probe.inner());
    let outcome = hedge().layer(limited).oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 25]);
}

#[derive(Debug)]
struct Failed(Fault);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Failed {}

/// Like [`verdict`], through the boxed error of tower's buffer.
fn unboxed(outcome: Result<&Answer, &BoxError>, context: &CallContext) -> Verdict {
    match outcome {
        Ok(answer) => verdict(Ok(answer), context),
        Err(error) => match error.downcast_ref::<Failed>() {
            Some(Failed(fault)) => verdict(Err(fault), context),
            None => panic!("an error of another kind: {error}"),
        },
    }
}

type Unboxed = fn(Result<&Answer, &BoxError>, &CallContext) -> Verdict;

#[tokio::test(start_paused = true)]
async fn a_buffer_below_serves_retries_and_hedges() {
    let buffered = |probe: &Probe| {
        ServiceBuilder::new()
            .layer(BufferLayer::<Call<Payload>>::new(1))
            .map_err(Failed)
            .service(probe.inner())
    };
    let retried = probe([fails(1), attempt(2)]);
    let service = RetryLayer::new(unboxed as Unboxed, RetryOnce).layer(buffered(&retried));
    let answer = service.oneshot(retried.request()).await.unwrap();
    assert_eq!(answer.attempt, 2);

    let hedged = probe([fails(1), attempt(2)]);
    let policy = HedgePolicy::new(3, ms(10)).hedge_non_idempotent();
    let service = HedgeLayer::new(unboxed as Unboxed, policy).layer(buffered(&hedged));
    let answer = service.oneshot(hedged.request()).await.unwrap();
    assert_eq!(answer.attempt, 2);
}
