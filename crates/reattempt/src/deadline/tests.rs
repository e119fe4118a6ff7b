use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;

use crate::failure::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE, UNKNOWN};
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{BestEffort, MaxAttempts};
use crate::{
    AttemptOutcome, Call, CallContext, Classify, Failure, OnDeadline, RetryInfo, RetryStrategy,
    RoutePolicy, Stage, StopReason, Verdict, classify_fn,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::*;
use crate::test_util::{
    Answer, CallResult, Fault, Payload, Probe, Step, attempt, call_result, elapsed, ms, probe,
    readiness, use_up_budget, verdict,
};
use crate::{CallDeadline, Elapsed};
use crate::{HedgeLayer, HedgePolicy, RetryLayer};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

fn retry(strategy: impl RetryStrategy + 'static) -> RetryLayer<Verdicts> {
    RetryLayer::new(verdict, strategy)
}

fn hedge(policy: HedgePolicy) -> HedgeLayer<Verdicts> {
    HedgeLayer::new(verdict, policy)
}

fn within(time: u64) -> DeadlineLayer {
    DeadlineLayer::new(ms(time))
}

fn tries(attempts: u32, delay: u64) -> MaxAttempts {
    MaxAttempts::new(attempts, Backoff::constant(ms(delay)))
}

fn every(delay: u64) -> MaxAttempts {
    tries(9, delay)
}

type Outcome = Result<Answer, Fault>;

async fn send<S>(service: S, mut request: Call<Payload>) -> (Outcome, RetryInfo)
where
    S: Service<Call<Payload>, Response = Answer, Error = Fault>,
{
    let watch = RetryInfo::track(&mut request);
    (service.oneshot(request).await, watch.info())
}

/// Sends a request to the probe through these layers, of which the first is the outermost.
async fn through<L>(layers: L, probe: &Probe) -> (Outcome, RetryInfo)
where
    L: Layer<Probe, Service: Service<Call<Payload>, Response = Answer, Error = Fault>>,
{
    send(layers.layer(probe.inner()), probe.request()).await
}

/// A request with this idempotency.
fn request_as(idempotency: Idempotency, probe: &Probe) -> Call<Payload> {
    let mut request = probe.request();
    request.context_mut().set_idempotency(idempotency);
    request
}

/// A deadline of `limit` around a retry layer around the probe.
async fn bounded(
    limit: u64,
    strategy: impl RetryStrategy + 'static,
    probe: &Probe,
) -> (Outcome, RetryInfo) {
    let service = (within(limit), retry(strategy)).layer(probe.inner());
    send(service, probe.request()).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_very_instant_of_the_deadline_wins() {
    let probe = probe([attempt(1).after(ms(50))]);
    let service = within(50).layer(probe.inner());
    let outcome = service.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
}

#[tokio::test(start_paused = true)]
async fn past_the_deadline_the_call_is_dropped_and_the_error_returned() {
    let probe = probe([attempt(1).after(ms(51))]);
    let service = within(50).layer(probe.inner());
    let story = elapsed(service.oneshot(probe.request()).await);
    assert_eq!(story.scope, DeadlineScope::Call);
    assert_eq!(story.timeout, Some(ms(50)));
    assert!(story.ambiguous, "it is not marked as idempotent");
    assert_eq!(probe.log().future_dropped(1), Some((50, false)));
}

/// Law 4: the server has answered a write, and a layer between reads the body.
#[tokio::test(start_paused = true)]
async fn a_call_is_ambiguous_after_a_success_below() {
    async fn stalls<L>(recovery: L, step: Step)
    where
        L: Layer<Probe, Service: Service<Call<Payload>, Response = Answer, Error = Fault> + Clone>,
    {
        let probe = probe([step.after(ms(10))]);
        let service = ServiceBuilder::new()
            .layer(within(50))
            .and_then(|_| std::future::pending::<Outcome>())
            .layer(recovery)
            .service(probe.inner());
        let (outcome, info) = send(service, probe.request()).await;
        assert!(elapsed(outcome).ambiguous);
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
    }
    stalls(retry(every(10)), attempt(1)).await;
    stalls(retry(every(10)), attempt(1).commits()).await;
    let hedge = hedge(HedgePolicy::new(2, ms(40)));
    stalls(hedge, attempt(1)).await;
}

/// Treats any error as caused by another timer for the same deadline.
#[derive(Clone, Copy)]
struct ErrorsEcho;

impl OnElapsed<Answer, Fault> for ErrorsEcho {
    fn on_elapsed(&self, elapsed: Elapsed) -> Outcome {
        AsError.on_elapsed(elapsed)
    }

    fn is_echo(&self, outcome: Result<&Answer, &Fault>) -> bool {
        outcome.is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn an_echo_counts_as_the_deadline_only_once_it_has_passed() {
    for (at, limit, is_deadline) in [(49, 50, false), (50, 50, true), (51, 50, true)] {
        let probe = probe([attempt(1).fails(KV_LOCKED).after(ms(at))]);
        let service =
            (within(limit).on_elapsed(ErrorsEcho), retry(tries(1, 1))).layer(probe.inner());
        let (outcome, info) = send(service, probe.request()).await;
        if is_deadline {
            assert!(elapsed(outcome).ambiguous, "it was in flight");
            assert_eq!(info.stopped(), Some(StopReason::Deadline));
        } else {
            assert_eq!(call_result(&outcome), CallResult::Error(1));
            assert_eq!(info.stopped(), Some(StopReason::Attempts));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_echo_is_ambiguous_if_a_write_may_have_left() {
    let ambiguous = async |stage, idempotency| {
        let failed = Verdict::Retry(Failure::new(KV_LOCKED, stage));
        let probe = probe([attempt(1).comes_to(failed).after(ms(50))]);
        let service = (within(50).on_elapsed(ErrorsEcho), retry(tries(1, 1))).layer(probe.inner());
        let request = request_as(idempotency, &probe);
        elapsed(send(service, request).await.0).ambiguous
    };
    let write = Idempotency::NotIdempotent;
    assert!(ambiguous(Stage::InFlight, write).await);
    assert!(!ambiguous(Stage::Dispatch, write).await);
    assert!(!ambiguous(Stage::InFlight, Idempotency::Idempotent).await);
}

/// The record of an earlier attempt says nothing of the one in flight.
#[tokio::test(start_paused = true)]
async fn an_echo_at_an_attempts_deadline_is_of_that_attempt() {
    for stage in [Stage::Dispatch, Stage::InFlight] {
        let unsent = Verdict::Retry(Failure::new(KV_LOCKED, Stage::Dispatch));
        let last = Verdict::Fatal(Failure::new(UNKNOWN, Stage::InFlight));
        let probe = probe([
            attempt(1).comes_to(unsent),
            attempt(2).comes_to(last).reaches(stage).after(ms(50)),
        ]);
        let service = ServiceBuilder::new()
            .layer(retry(tries(2, 1)))
            .layer(AttemptDeadlineLayer::new(ms(50)).on_elapsed(ErrorsEcho))
            .service(probe.inner());
        let mut request = probe.request();
        let context = request.context_mut();
        context.set_idempotency(Idempotency::NotIdempotent);
        let story = elapsed(send(service, request).await.0);
        assert_eq!(story.scope, DeadlineScope::Attempt);
        assert_eq!(story.ambiguous, stage == Stage::InFlight);
    }
}

/// A middleware below a deadline sends a copy of the call elsewhere.
#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_copy_is_enforced_by_its_own_layer() {
    let probe = probe([attempt(1).hangs()]);
    let mirror = within(5000).layer(probe.inner());
    let (copies, mut copied) = tokio::sync::mpsc::unbounded_channel();
    let inner = tower::service_fn(move |request: Call<Payload>| {
        copies.send(request.clone()).unwrap();
        std::future::pending::<Outcome>()
    });
    let outer = within(1000).layer(inner);
    assert!(outer.oneshot(probe.request()).await.is_err());
    // It would not end: the layer around the original has ended that.
    let copy = copied.recv().await.unwrap();
    let limited = tokio::time::timeout(ms(10_000), mirror.oneshot(copy));
    let story = elapsed(limited.await.expect("it hangs"));
    assert_eq!(story.scope, DeadlineScope::Call);
    assert_eq!(probe.log().times(), [0; 0], "its deadline had passed");
}

/// A request that is too late for an attempt was never sent.
#[tokio::test(start_paused = true)]
async fn an_attempt_after_its_deadline_was_not_sent() {
    let probe = probe([attempt(1)]);
    let service = (retry(every(1)), AttemptDeadlineLayer::new(ms(50))).layer(probe.inner());
    let mut request = probe.request();
    let context = request.context_mut();
    context.set_idempotency(Idempotency::NotIdempotent);
    let passed = crate::CallDeadline::attached(clock::now());
    context.attach_deadline(passed);
    let (outcome, info) = send(service, request).await;
    assert!(!elapsed(outcome).ambiguous);
    let failure = info.records().next().unwrap().failure.unwrap();
    assert_eq!((failure.stage, failure.safe), (Stage::Dispatch, true));
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
}

/// RFC 0049: also for an attempt that ended with an unknown outcome.
#[tokio::test(start_paused = true)]
async fn a_timeout_after_an_attempt_that_was_lost_is_ambiguous() {
    let lost = Failure::new(KV_LOCKED, Stage::InFlight);
    let refused = lost.transparent(crate::Transparent::Once);
    let answered = Failure::new(KV_LOCKED, Stage::Response);
    for (first, expected) in [(lost, true), (refused, false), (answered, false)] {
        let unsent = Verdict::Retry(Failure::new(KV_LOCKED, Stage::Dispatch));
        for second in [
            attempt(2).hangs().reaches(Stage::Dispatch),
            attempt(2).comes_to(unsent).after(ms(50)),
        ] {
            let probe = probe([attempt(1).comes_to(Verdict::Retry(first)), second]);
            let service =
                (within(50).on_elapsed(ErrorsEcho), retry(tries(2, 0))).layer(probe.inner());
            let (outcome, _) = send(service, probe.request()).await;
            assert_eq!(elapsed(outcome).ambiguous, expected, "{first:?}");
        }
    }
}

#[test]
fn an_answer_that_is_there_arms_no_timer() {
    // Without a runtime, any timer would panic.
    let probe = probe([attempt(1)]);
    let call = within(50).layer(probe.inner()).oneshot(probe.request());
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(call).poll(&mut context).is_ready());
}

/// C7: RFC 0049, Capping the Retry Duration.
#[tokio::test(start_paused = true)]
async fn a_delay_that_does_not_fit_sends_no_more_until_the_deadline() {
    let probe = probe((1..=2).map(|n| attempt(n).fails(KV_TEMPORARY_FAILURE)));
    let capped = every(20).on_deadline(OnDeadline::Cap);
    let (outcome, info) = bounded(35, capped, &probe).await;
    let story = elapsed(outcome);
    assert_eq!(probe.log().now(), 35);
    assert_eq!(probe.log().times(), [0, 20]);
    assert!(!story.ambiguous, "both attempts had responses");
    assert_eq!(story.info.attempts(), 2);
    assert_eq!(story.info.count(KV_TEMPORARY_FAILURE), 2);
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
    // It is the call's, if no layer above ends it.
    assert_eq!(probe.log().outcome_dropped(2), Some(35));
}

/// C7
#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_at_the_deadline_does_not_fit() {
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let capped = every(20).on_deadline(OnDeadline::Cap);
    let (outcome, _) = bounded(20, capped, &probe).await;
    assert_eq!(elapsed(outcome).info.attempts(), 1);
}

/// The default of a maximum of attempts, under a classifier whose protocol does not cap.
#[tokio::test(start_paused = true)]
async fn giving_up_returns_the_servers_failure_now() {
    for strategy in [every(20), every(20).on_deadline(OnDeadline::GiveUp)] {
        let probe = probe((1..=2).map(|n| attempt(n).fails(KV_LOCKED)));
        let (outcome, info) = bounded(35, strategy, &probe).await;
        assert_eq!(call_result(&outcome), CallResult::Error(2));
        assert_eq!(probe.log().now(), 20);
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
    }
}

/// RFC 0049: its classifiers cap, also one that is shared.
#[tokio::test(start_paused = true)]
async fn a_classifier_whose_protocol_caps_ends_at_the_deadline() {
    #[derive(Clone)]
    struct Caps;
    impl Classify<Answer, Fault> for Caps {
        fn classify(&self, outcome: Result<&Answer, &Fault>, context: &CallContext) -> Verdict {
            verdict(outcome, context)
        }
        fn on_deadline(&self) -> OnDeadline {
            OnDeadline::Cap
        }
    }
    async fn times_out(classifier: impl Classify<Answer, Fault> + Clone) {
        let probe = probe((1..=2).map(|n| attempt(n).fails(KV_LOCKED)));
        let service = (within(35), RetryLayer::new(classifier, every(20))).layer(probe.inner());
        let (outcome, _) = send(service, probe.request()).await;
        assert_eq!(elapsed(outcome).info.attempts(), 2);
        assert_eq!(probe.log().now(), 35);
    }
    times_out(Caps).await;
    times_out(Arc::new(Caps)).await;
}

/// R14
#[tokio::test(start_paused = true)]
async fn the_deadline_spans_all_attempts() {
    let first = attempt(1).fails(KV_LOCKED).after(ms(30));
    let probe = probe([first, attempt(2).hangs()]);
    let (outcome, info) = bounded(50, every(10), &probe).await;
    let story = elapsed(outcome);
    assert_eq!(probe.log().now(), 50);
    assert!(story.ambiguous, "the second attempt was in flight");
    let last = story.info.records().last().unwrap();
    assert_eq!((last.number, last.outcome), (2, AttemptOutcome::Cancelled));
    // It was not cancelled by the caller.
    assert_eq!(last.stopped, Some(StopReason::Deadline));
    assert_eq!(info, *story.info, "the watch has the same history");
    let history = "after 2 attempt(s); reasons: KV_LOCKED";
    assert!(story.to_string().contains(history));
}

/// RFC 0049: unambiguous if it is known that the request had no effect.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_unambiguous_if_nothing_in_flight_may_have_left() {
    let ambiguous = |outcome: Outcome| elapsed(outcome).ambiguous;

    let idempotent = probe([attempt(1).hangs()]);
    let request = request_as(Idempotency::Idempotent, &idempotent);
    let service = within(50).layer(idempotent.inner());
    assert!(!ambiguous(service.oneshot(request).await));

    let never_left = probe([attempt(1).hangs().reaches(Stage::Dispatch)]);
    assert!(!ambiguous(bounded(50, every(10), &never_left).await.0));

    let answered_then_unsent = [
        attempt(1).fails(KV_LOCKED),
        attempt(2).hangs().reaches(Stage::Dispatch),
    ];
    let probe = probe(answered_then_unsent);
    assert!(!ambiguous(bounded(50, every(10), &probe).await.0));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_readiness_past_the_deadline_is_unambiguous() {
    let probe = probe([attempt(1).fails(KV_LOCKED)]).ready([readiness(2).never()]);
    let (outcome, info) = bounded(50, every(10), &probe).await;
    assert!(!elapsed(outcome).ambiguous);
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
}

/// E2: below the recovery layer it is a per-attempt timeout, which is retried.
#[tokio::test(start_paused = true)]
async fn inside_the_recovery_layer_it_bounds_each_attempt() {
    let probe = probe([attempt(1).hangs(), attempt(2)]);
    let request = request_as(Idempotency::Idempotent, &probe);
    let service = (within(500), retry(every(10)), within(50)).layer(probe.inner());
    let (outcome, info) = send(service, request).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 60]);
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

#[tokio::test(start_paused = true)]
async fn inside_a_hedge_layer_a_timed_out_attempt_sends_the_next() {
    let probe = probe([attempt(1).hangs(), attempt(2).after(ms(3))]);
    let hedge = hedge(HedgePolicy::new(3, ms(100)).hedge_non_idempotent());
    let (outcome, info) = through((hedge, within(50)), &probe).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 50]);
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

#[tokio::test(start_paused = true)]
async fn the_last_attempts_own_deadline_has_the_attempt_scope() {
    let probe = probe([attempt(1).hangs()]);
    let (outcome, info) = through((retry(every(10)), within(50)), &probe).await;
    let story = elapsed(outcome);
    assert_eq!(story.scope, DeadlineScope::Attempt);
    assert_eq!(story.timeout, Some(ms(50)));
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_limit_further_out_is_left_to_that_layer() {
    for inner in [50, 100] {
        let probe = probe([attempt(1).hangs()]);
        let (outcome, info) = through((within(50), retry(every(10)), within(inner)), &probe).await;
        let story = elapsed(outcome);
        assert_eq!(story.scope, DeadlineScope::Call);
        assert_eq!(story.timeout, Some(ms(50)));
        assert!(story.ambiguous, "the attempt was still out");
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
    }
}

/// R80
#[tokio::test(start_paused = true)]
async fn of_several_limits_the_earliest_counts() {
    let policy = || {
        let policy = RoutePolicy::new("p").with_timeout(ms(40));
        Arc::new(policy.with_attempt_timeout(ms(7)))
    };
    for (layer, attached, ends) in [(30, None, 30), (90, None, 40), (90, Some(20), 20)] {
        let probe = probe([attempt(1).hangs()]);
        let mut request = probe.request();
        let context = request.context_mut();
        context.set_policy(policy());
        if let Some(attached) = attached {
            context.attach_deadline(CallDeadline::attached(clock::now() + ms(attached)));
        }
        let service = within(layer).layer(probe.inner());
        let story = elapsed(service.oneshot(request).await);
        assert_eq!(probe.log().now(), ends);
        assert_eq!(story.timeout, attached.is_none().then(|| ms(ends)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_limit_gives_way_to_the_policys() {
    for (of_policy, attached, ends) in [
        (Some(40), None, 40),
        (Some(20), None, 20),
        (Some(40), Some(35), 35),
        (Some(40), Some(90), 40),
        (None, None, 30),
        (None, Some(90), 30),
    ] {
        let probe = probe([attempt(1).hangs()]);
        let mut request = probe.request();
        let context = request.context_mut();
        let policy = RoutePolicy::new("p");
        context.set_policy(Arc::new(match of_policy {
            Some(limit) => policy.with_timeout(ms(limit)),
            None => policy,
        }));
        if let Some(attached) = attached {
            context.attach_deadline(CallDeadline::attached(clock::now() + ms(attached)));
        }
        let layer = within(30).unless_policy();
        let story = elapsed(layer.layer(probe.inner()).oneshot(request).await);
        assert_eq!(probe.log().now(), ends);
        assert_eq!(story.timeout, (attached != Some(ends)).then(|| ms(ends)));
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_own_limit_it_enforces_policy_and_caller_limits() {
    let probe = probe([attempt(1).hangs()]);
    let mut request = probe.request();
    let policy = RoutePolicy::new("p").with_attempt_timeout(ms(7));
    let context = request.context_mut();
    context.set_policy(Arc::new(policy));
    context.attach_deadline(CallDeadline::attached(clock::now() + ms(20)));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::no_timeout())
        .layer(retry(every(10)))
        .layer(DeadlineLayer::no_timeout())
        .service(probe.inner());
    let story = elapsed(send(service, request).await.0);
    assert_eq!(story.scope, DeadlineScope::Attempt);
    assert_eq!(probe.log().now(), 7);

    let unbounded = crate::test_util::probe([attempt(1).after(ms(100_000))]);
    let service = DeadlineLayer::no_timeout().layer(unbounded.inner());
    let outcome = service.oneshot(unbounded.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
}

/// By that a recovery layer knows that a layer below it enforces its policy's limit.
#[tokio::test(start_paused = true)]
async fn it_marks_a_call_whose_attempts_it_limits() {
    let marked = || {
        tower::service_fn(|call: Call<Payload>| {
            let marked = call.context().is_some_and(CallContext::has_attempt_timeout);
            async move { Ok::<_, Fault>(marked) }
        })
    };
    let works = |_: Result<&bool, &Fault>, _: &CallContext| Verdict::Success;
    let retry = || RetryLayer::new(classify_fn(works), every(10));
    let request = || {
        let mut request = probe([]).request();
        let policy = RoutePolicy::new("p").with_attempt_timeout(ms(7));
        request.context_mut().set_policy(Arc::new(policy));
        request
    };
    let limit = DeadlineLayer::no_timeout();
    let below = retry().layer(limit.clone().layer(marked()));
    assert!(below.oneshot(request()).await.unwrap());
    let above = limit.layer(retry().layer(marked()));
    assert!(!above.oneshot(request()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_has_passed_already_sends_nothing() {
    for layer in [DeadlineLayer::no_timeout(), within(50)] {
        let probe = probe([]);
        let mut request = probe.request();
        request
            .context_mut()
            .set_idempotency(Idempotency::NotIdempotent)
            .attach_deadline(CallDeadline::attached(clock::now()));
        let service = (layer, retry(every(10))).layer(probe.inner());
        let (outcome, info) = send(service, request).await;
        let story = elapsed(outcome);
        assert_eq!((story.timeout, probe.log().now()), (None, 0));
        assert!(!story.ambiguous, "nothing was sent");
        assert_eq!(info.attempts(), 0);
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
    }
}

/// A poll after completion is against the contract, but must not produce a timeout.
#[tokio::test(start_paused = true)]
async fn after_its_answer_a_call_never_runs_into_its_deadline() {
    let mut service = within(50).layer(tower::service_fn(|_: Call<Payload>| {
        let mut over = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut over, true) {
                return Poll::Pending;
            }
            Poll::Ready(Err::<Answer, _>(Fault::Broken))
        })
    }));
    let mut future = pin!(Service::call(&mut service, probe([]).request()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready());
    tokio::time::advance(ms(100)).await;
    assert!(future.as_mut().poll(&mut context).is_pending());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`DeadlineFuture` polled after completion")]
async fn a_poll_after_the_deadline_ended_the_call_panics() {
    let probe = probe([attempt(1).after(ms(100))]);
    let mut service = within(50).layer(probe.inner());
    std::future::poll_fn(|cx| Service::<Call<Payload>>::poll_ready(&mut service, cx))
        .await
        .unwrap();
    let mut future = pin!(Service::call(&mut service, probe.request()));
    assert_eq!(call_result(&future.as_mut().await), CallResult::Elapsed);
    let mut context = Context::from_waker(Waker::noop());
    let _ = future.as_mut().poll(&mut context);
}

/// tokio gives each poll of a task a budget; an inner future that always uses it up must not starve
/// the limit.
#[tokio::test]
async fn a_busy_inner_future_is_ended_in_time() {
    let service = within(50).layer(tower::service_fn(|_: Call<Payload>| async {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let begun = tokio::time::Instant::now();
        // Ends on its own, so that a bug fails the test instead of hanging it.
        while begun.elapsed() < ms(3000) {
            let _ = sender.send(());
            receiver.recv().await;
        }
        Err::<Answer, _>(Fault::Broken)
    }));
    let probe = probe([]);
    assert_eq!(
        elapsed(service.oneshot(probe.request()).await).timeout,
        Some(ms(50))
    );
}

/// R48
#[tokio::test(start_paused = true)]
async fn it_ends_all_hedges() {
    let probe = probe((1..=3).map(|n| attempt(n).hangs()));
    let hedge = hedge(HedgePolicy::new(3, ms(10)).hedge_non_idempotent());
    let (outcome, info) = through((within(50), hedge), &probe).await;
    assert_eq!(elapsed(outcome).info.attempts(), 3);
    for n in 1..=3 {
        assert_eq!(probe.log().future_dropped(n), Some((50, false)));
    }
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
    assert_eq!(info.records().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn best_effort_tries_until_the_deadline() {
    let probe = probe((1..=9).map(|n| attempt(n).fails(KV_LOCKED)));
    let (outcome, _) = bounded(300, BestEffort::new(), &probe).await;
    assert_eq!(elapsed(outcome).info.attempts(), 9);
    assert_eq!(probe.log().times(), [0, 1, 3, 7, 15, 31, 63, 127, 255]);
    assert_eq!(probe.log().now(), 300);
}

#[derive(Clone, Debug)]
struct AnswersInstead;

impl OnElapsed<Answer, Fault> for AnswersInstead {
    fn on_elapsed(&self, _: Elapsed) -> Result<Answer, Fault> {
        Err(Fault::Broken)
    }
}

/// Law 1: the layer's configuration decides what a caller gets.
#[tokio::test(start_paused = true)]
async fn the_outcome_for_the_caller_is_configurable() {
    let probe = probe([attempt(1).hangs()]);
    let layer = within(5).on_elapsed(AnswersInstead);
    let outcome = layer.layer(probe.inner()).oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Broken);
}

/// An attempt timeout returns a local response that a policy may consider safe to retry.
#[tokio::test(start_paused = true)]
async fn an_attempts_limit_is_no_answer_of_the_servers() {
    let unavailable = |_: Result<&Answer, &Fault>, _: &CallContext| {
        Verdict::Retry(Failure::new(UNKNOWN, Stage::Response).safe(true))
    };
    let run = async |step, idempotency| {
        let probe = probe([step, attempt(2).fails(KV_TEMPORARY_FAILURE)]);
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(classify_fn(unavailable), tries(2, 0)))
            .layer(within(5).on_elapsed(AnswersInstead))
            .service(probe.inner());
        let request = request_as(idempotency, &probe);
        let (_, info) = send(service, request).await;
        let stage = info.records().next().unwrap().failure.unwrap().stage;
        (stage, info.stopped(), info.attempts())
    };
    let lost = (Stage::InFlight, Some(StopReason::NotIdempotent), 1);
    let write = Idempotency::NotIdempotent;
    assert_eq!(run(attempt(1).hangs(), write).await, lost);
    let queued = attempt(1).hangs().reaches(Stage::Dispatch);
    let (stage, _, attempts) = run(queued, write).await;
    let unsent = (Stage::Dispatch, 2);
    assert_eq!((stage, attempts), unsent, "it never left the client");
    let (stage, _, attempts) = run(attempt(1).hangs(), Idempotency::Idempotent).await;
    assert_eq!((stage, attempts), (Stage::InFlight, 2));
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send + std::fmt::Debug>() {}
    service::<DeadlineLayer>();
    service::<Deadline<Probe>>();
    future::<DeadlineFuture<crate::test_util::ProbeFuture, AsError>>();
};

/// A retry of another crate between the layers: its copy is a call of its own.
#[tokio::test(start_paused = true)]
async fn a_copy_sent_above_the_recovery_layer_is_ambiguous() {
    let any = |_: Result<&(), &tower::BoxError>, _: &CallContext| {
        Verdict::Fatal(Failure::new(UNKNOWN, Stage::Response))
    };
    for copied in [true, false] {
        let layer = RetryLayer::new(classify_fn(any), every(1));
        let inner = layer.layer(tower::service_fn(move |call: Call<bool>| async move {
            if call.request {
                std::future::pending::<()>().await;
            }
            Err::<(), tower::BoxError>("an answer".into())
        }));
        let between = tower::service_fn(move |first: Call<bool>| {
            let inner = inner.clone();
            async move {
                let copy = copied.then(|| first.clone());
                let outcome = inner.clone().oneshot(first).await;
                let Some(mut copy) = copy else {
                    tokio::time::sleep(ms(100)).await;
                    return outcome;
                };
                copy.request = true;
                inner.oneshot(copy).await
            }
        });
        let service = within(50).layer(between);
        let error = service.oneshot(Call::new(false)).await.unwrap_err();
        let elapsed = error.downcast::<Elapsed>().expect("the deadline");
        assert_eq!(elapsed.ambiguous, copied);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_deadline_outside_recovery_warns_once() {
    let listener = crate::test_util::listen();
    let layer = AttemptDeadlineLayer::new(ms(10));
    for _ in 0..2 {
        let probe = probe([attempt(1).hangs()]);
        let service = layer.layer(retry(every(1)).layer(probe.inner()));
        let (outcome, info) = send(service, probe.request()).await;
        assert!(outcome.is_err());
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("AttemptDeadlineLayer is outside of any recovery layer"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_deadline_ends_attempts_only() {
    let listener = crate::test_util::listen();
    let probe = probe([attempt(1).hangs(), attempt(2)]);
    let service = retry(every(1)).layer(AttemptDeadlineLayer::new(ms(10)).layer(probe.inner()));
    let request = request_as(Idempotency::Idempotent, &probe);
    let (outcome, info) = send(service, request).await;
    assert!(outcome.is_ok());
    assert_eq!((info.attempts(), listener.warnings().len()), (2, 0));
}

type Handed = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Polls its call once, hands it over, and waits for something else.
fn hands_over(
    to: fn(Handed),
) -> impl Layer<Deadline<Probe>, Service: Clone + Service<Call<Payload>, Response = Answer, Error = Fault>>
{
    tower::layer::layer_fn(move |inner: Deadline<Probe>| {
        tower::service_fn(move |request: Call<Payload>| {
            let inner = inner.clone();
            async move {
                let mut call: Handed = Box::pin(inner.oneshot(request));
                is_pending(call.as_mut()).await;
                to(call);
                std::future::pending().await
            }
        })
    })
}

/// A timer below does not count that is no part of the call's own future.
#[tokio::test(start_paused = true)]
async fn it_ends_a_call_that_handed_its_attempt_over() {
    let hands: [fn(Handed); 5] = [
        drop,
        std::mem::forget,
        |call| drop(tokio::spawn(call)),
        |call| drop(tokio::spawn(async { drop(call) })),
        |call| std::thread::spawn(|| drop(call)).join().unwrap(),
    ];
    for to in hands {
        let start = clock::now();
        let probe = probe([attempt(1).hangs()]);
        let service = ServiceBuilder::new()
            .layer(within(50))
            .layer(retry(every(1)))
            .layer(hands_over(to))
            .layer(AttemptDeadlineLayer::new(ms(10)))
            .service(probe.inner());
        let sent = tokio::time::timeout(ms(1000), send(service, probe.request()));
        let (outcome, info) = sent.await.expect("it hangs");
        assert!(outcome.is_err());
        assert_eq!(info.stopped(), Some(StopReason::Deadline));
        assert_eq!(clock::now() - start, ms(50));
    }
}

#[tokio::test(start_paused = true)]
async fn it_arms_no_timer_beside_an_earlier_one_below() {
    for (below, armed) in [(ms(10), false), (ms(90), true)] {
        let probe = probe([attempt(1).hangs(), attempt(2).hangs()]);
        let mut service = (within(50), hedge(HedgePolicy::new(2, below))).layer(probe.inner());
        let request = request_as(Idempotency::Idempotent, &probe);
        let ready = ServiceExt::<Call<Payload>>::ready(&mut service).await;
        let mut call = pin!(ready.unwrap().call(request));
        assert!(is_pending(call.as_mut()).await);
        assert_eq!(matches!(call.ends, Ends::Fires(_)), armed);
        tokio::time::advance(below).await;
        is_pending(call.as_mut()).await;
        assert!(
            matches!(call.ends, Ends::Fires(_)),
            "no hedge is planned any more"
        );
    }
}

/// Polls a call once.
async fn is_pending(mut call: std::pin::Pin<&mut (impl Future + ?Sized)>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await
}

/// The clock is past the deadline, and its timer fires only at the next millisecond.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_ready_too_late_is_not_called() {
    let probe = probe([
        attempt(1).fails(KV_TEMPORARY_FAILURE).as_answer(),
        attempt(2),
    ]);
    let permits = Arc::new(tokio::sync::Semaphore::new(1));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_micros(20_300)))
        .layer(retry(every(1).on_deadline(OnDeadline::Cap)))
        .layer(tower::limit::GlobalConcurrencyLimitLayer::with_semaphore(
            permits.clone(),
        ))
        .service(probe.inner());
    let call = send(service, probe.request());
    let holds = async {
        let held = permits.acquire().await.unwrap();
        tokio::time::sleep(ms(15)).await;
        tokio::time::advance(Duration::from_micros(5_600)).await;
        drop(held);
    };
    let ((outcome, _), ()) = tokio::join!(biased; call, holds);
    assert_eq!(call_result(&outcome), CallResult::Elapsed);
    assert_eq!(probe.log().times(), [0]);
}

/// Law 4. A generated tonic client, for example, is a service that is kept.
#[tokio::test]
async fn a_late_call_gives_its_permit_back() {
    let probe = probe([]);
    let permits = Arc::new(tokio::sync::Semaphore::new(1));
    let mut kept = ServiceBuilder::new()
        .layer(DeadlineLayer::no_timeout())
        .layer(tower::limit::GlobalConcurrencyLimitLayer::with_semaphore(
            permits.clone(),
        ))
        .service(probe.inner());
    let mut request = probe.request();
    let passed = CallDeadline::attached(crate::clock::now());
    request.context_mut().attach_deadline(passed);
    let outcome = (&mut kept).oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Elapsed);
    assert_eq!(permits.available_permits(), 1);
}

/// The response and the deadline are both due when the task is polled again, but another future of
/// that task has used up tokio's budget by then.
#[tokio::test(start_paused = true)]
async fn a_response_that_had_no_budget_is_not_late() {
    let hedges = HedgePolicy::new(3, ms(60)).hedge_non_idempotent();
    let probe = probe([attempt(1).after(ms(50))]);
    let service = (within(90), hedge(hedges)).layer(probe.inner());
    let mut call = pin!(service.oneshot(probe.request()));
    assert!(is_pending(call.as_mut()).await);
    tokio::time::advance(ms(100)).await;
    let mut is_first = true;
    let outcome = std::future::poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            use_up_budget(cx);
        }
        call.as_mut().poll(cx)
    });
    assert_eq!(call_result(&outcome.await), CallResult::Answer(1));
    assert_eq!(probe.log().times(), [0]);
}

/// The future that uses up the budget at each poll is the one that the deadline is for.
#[tokio::test(start_paused = true)]
async fn a_future_without_budget_ends_at_its_deadline() {
    let never = tower::service_fn(|_: Call<()>| {
        std::future::poll_fn(|cx| {
            use_up_budget(cx);
            Poll::<Result<Answer, Fault>>::Pending
        })
    });
    let service = within(50).layer(never);
    let mut call = pin!(service.oneshot(Call::new(())));
    assert!(is_pending(call.as_mut()).await);
    tokio::time::advance(ms(50)).await;
    assert_eq!(call_result(&call.await), CallResult::Elapsed);
}

/// A set of futures may poll a call again before its task yields.
#[tokio::test(start_paused = true)]
async fn a_call_without_any_budget_ends_after_eight_more_polls() {
    let probe = probe([attempt(1).hangs()]);
    let service = within(50).layer(probe.inner());
    let mut call = pin!(service.oneshot(probe.request()));
    assert!(is_pending(call.as_mut()).await);
    tokio::time::advance(ms(50)).await;
    let mut polls = 0;
    let outcome = std::future::poll_fn(|cx| {
        use_up_budget(cx);
        loop {
            polls += 1;
            assert!(polls < 20, "it never ends");
            if let Poll::Ready(outcome) = call.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
        }
    });
    assert_eq!(call_result(&outcome.await), CallResult::Elapsed);
    assert_eq!(polls, 9);
}
