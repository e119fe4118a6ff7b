//! Each default, and each setting.

use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{AttemptKind, CallContext, HedgePolicy, Observer, RoutePolicy, TokenBucket};
use tower::util::BoxCloneService;

use super::*;
use crate::{OuterAttempt, ReadGate};

/// The preset around a client that meets these steps.
async fn run(
    layer: &MongoClientLayer,
    command: Command,
    steps: &[Step],
) -> (Seen, RetryInfo, Duration) {
    send(layer.layer(client(steps)), Call::new(command)).await
}

/// The same of a call with this policy of a route.
async fn run_by(
    policy: &Arc<RoutePolicy>,
    layer: &MongoClientLayer,
    command: Command,
    steps: &[Step],
) -> (Seen, RetryInfo, Duration) {
    let mut call = Call::new(command);
    call.context_mut().attach_policy(Arc::clone(policy));
    send(layer.layer(client(steps)), call).await
}

/// Hedges after 20 ms.
fn hedged(attempts: u32) -> Arc<RoutePolicy> {
    let policy = HedgePolicy::new(attempts, ms(20));
    Arc::new(RoutePolicy::new("hedged").hedge(policy))
}

/// M1, M2
#[tokio::test(start_paused = true)]
async fn by_default_one_retry_at_once_and_no_limit() {
    let layer = MongoClientLayer::default();
    let (seen, info, took) = run(&layer, FIND, &[STEPPED_DOWN]).await;
    assert_eq!((seen, info.attempts(), took), (Ok(2), 2, Duration::ZERO));
    let (seen, info, _) = run(&layer, FIND, &[STEPPED_DOWN; 9]).await;
    assert!(seen.is_err());
    assert_eq!(info.attempts(), 2);
    let hours = Duration::from_secs(10 * 60 * 60);
    let hanging = run(&layer, FIND, &[Step::Hangs]);
    assert!(tokio::time::timeout(hours, hanging).await.is_err());
}

/// M9, M14, M19
#[tokio::test(start_paused = true)]
async fn what_is_not_eligible_runs_once() {
    let on = MongoClientLayer::new();
    for (layer, command) in [
        (on.clone(), INSERT),
        (on.clone(), IN_TRANSACTION),
        (on.retry_reads(false), FIND),
    ] {
        let (seen, info, _) = run(&layer, command, &[LOST]).await;
        assert!(seen.is_err(), "{command:?}");
        assert_eq!(info.attempts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_rules_of_2026_are_one_word_away() {
    let old = MongoClientLayer::new();
    let (_, info, _) = run(&old, FIND, &[Step::Busy]).await;
    assert_eq!(info.attempts(), 1);
    let current = MongoClientLayer::current();
    for command in [FIND, INSERT] {
        let (seen, info, took) = run(&current, command, &[Step::Busy; 2]).await;
        assert_eq!((seen, info.attempts()), (Ok(3), 3), "{command:?}");
        assert!(
            took <= ms(100 + 200),
            "up to 100 ms, then up to 200 ms: {took:?}"
        );
    }
    // The options stay when the strategy changes.
    let writes_off = current.retry_writes(false);
    let strategy = RetryableReads::current().overload_backoff(1);
    let writes_off = writes_off.strategy(strategy);
    for (command, attempts) in [(INSERT, 1), (FIND, 2)] {
        let (_, info, _) = run(&writes_off, command, &[Step::Busy; 9]).await;
        assert_eq!(info.attempts(), attempts, "{command:?}");
    }
}

/// M8: without the back-off it would be sent again at once, until the deadline.
#[tokio::test(start_paused = true)]
async fn overload_is_final_for_a_strategy_without_its_back_off() {
    let strategy = RetryableReads::seed_2022().until_deadline();
    let layer = MongoClientLayer::current().timeout(ms(300));
    let (seen, info, _) = run(&layer.strategy(strategy), FIND, &[Step::Busy; 9]).await;
    assert!(seen.is_err());
    assert_eq!(info.attempts(), 1);
}

/// E2, and the specification since 2022-10: `timeoutMS`.
#[tokio::test(start_paused = true)]
async fn a_timeout_ends_the_call_and_by_later_rules_bounds_it() {
    let limited = MongoClientLayer::new().timeout(ms(300));
    let (seen, _, took) = run(&limited, FIND, &[Step::Hangs]).await;
    assert!(seen.unwrap_err().ends_with("ambiguous: false"), "a read");
    assert_eq!(took, ms(300));
    let current = MongoClientLayer::current().timeout(ms(300));
    let (seen, info, _) = run(&current, FIND, &[STEPPED_DOWN; 9]).await;
    assert_eq!((seen, info.attempts()), (Ok(10), 10));
}

/// E2: a network timeout, which is retried only for a read.
#[tokio::test(start_paused = true)]
async fn an_attempts_limit_is_a_network_error() {
    let layer = MongoClientLayer::new().attempt_timeout(ms(300));
    let (seen, info, took) = run(&layer, FIND, &[Step::Hangs]).await;
    assert_eq!((seen, info.attempts(), took), (Ok(2), 2, ms(300)));
    let reasons: Vec<_> = info.reasons().collect();
    assert_eq!(reasons, [crate::reasons::MONGODB_NETWORK_ERROR]);
    let (seen, info, _) = run(&layer, INSERT, &[Step::Hangs]).await;
    assert!(seen.unwrap_err().ends_with("ambiguous: true"));
    assert_eq!(info.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_applies_when_one_is_given() {
    let bucket = Arc::new(TokenBucket::new(2, 100).unwrap());
    let layer = MongoClientLayer::new().throttle(bucket);
    let (_, info, _) = run(&layer, FIND, &[STEPPED_DOWN]).await;
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
}

/// M35
#[tokio::test(start_paused = true)]
async fn retries_around_it_are_reported_and_can_be_left_alone() {
    let told: Arc<Mutex<Vec<u32>>> = Arc::default();
    let notes = Arc::clone(&told);
    let layer = MongoClientLayer::new()
        .on_nested(move |nested| notes.lock().unwrap().push(nested.attempt))
        .stand_back_when_nested(true);
    let mut call = Call::new(FIND);
    call.context_mut().set_data(OuterAttempt(2));
    let (seen, ..) = send(layer.layer(client(&[LOST])), call).await;
    assert!(seen.is_err());
    assert_eq!(*told.lock().unwrap(), [2]);
}

/// M10: a route layer above may hedge or retry otherwise, but only what the gate allows.
#[tokio::test(start_paused = true)]
async fn a_policy_above_cannot_enable_what_the_gate_forbids() {
    let own = MaxAttempts::new(4, Backoff::constant(ms(5)));
    let layer = MongoClientLayer::new();
    let by = async |policy: RoutePolicy, command, steps: &[Step]| {
        run_by(&Arc::new(policy), &layer, command, steps).await
    };
    let policy = || RoutePolicy::new("own").retry(own.clone());
    let (seen, info, _) = by(policy(), FIND, &[LOST; 3]).await;
    assert_eq!((seen, info.attempts()), (Ok(4), 4));
    for command in [INSERT, IN_TRANSACTION] {
        let (_, info, _) = by(policy(), command, &[STEPPED_DOWN]).await;
        assert_eq!(info.attempts(), 1, "{command:?}");
        let gated = policy().with_data(ReadGate::Retry);
        let (_, info, _) = by(gated, command, &[STEPPED_DOWN]).await;
        assert_eq!(info.attempts(), 2, "{command:?}: a gate of its own");
        let (seen, _, took) = by(policy().with_timeout(ms(70)), command, &[Step::Hangs]).await;
        assert!(seen.is_err(), "{command:?}");
        assert_eq!(took, ms(70), "{command:?}: its timeout stays");
    }
    let current = MongoClientLayer::current();
    let off = Arc::new(RoutePolicy::new("off").no_recovery());
    for command in [FIND, INSERT, IN_TRANSACTION] {
        let (_, info, _) = run_by(&off, &current, command, &[Step::Busy]).await;
        assert_eq!(info.attempts(), 1, "{command:?}: a route without recovery");
    }
    for command in [INSERT, IN_TRANSACTION] {
        let mut call = Call::new(command);
        call.context_mut().attach_policy(Arc::clone(&off));
        call.context_mut().set_strategy(Arc::new(own.clone()));
        let (_, info, _) = send(layer.layer(client(&[STEPPED_DOWN])), call).await;
        let attempts = info.attempts();
        assert_eq!(attempts, 1, "{command:?}: with a strategy of the caller");
    }
    let (seen, info, took) = run_by(&hedged(2), &layer, FIND, &[Step::Hangs]).await;
    assert_eq!((seen, info.attempts(), took), (Ok(2), 2, ms(20)));
}

/// M5 M13 M23: a hedge that reaches no server is not the read's end.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_finds_no_server_leaves_the_first_attempt() {
    for kind in [
        FailureKind::WaitQueueTimeout,
        FailureKind::Selection,
        FailureKind::NotSupported,
    ] {
        let steps = [Step::WorksAfter(ms(70)), Step::Fails(kind)];
        let layer = MongoClientLayer::new();
        let (seen, info, took) = run_by(&hedged(3), &layer, FIND, &steps).await;
        let ended = (seen, info.attempts(), took);
        assert_eq!(ended, (Ok(1), 2, ms(70)), "{kind:?}");
    }
}

/// M22 R47: the specification has no hedges.
#[tokio::test(start_paused = true)]
async fn of_a_hedged_read_the_last_error_to_arrive_is_raised() {
    let steps = [LOST, Step::Fails(FailureKind::Selection)];
    let (seen, ..) = run_by(&hedged(2), &MongoClientLayer::new(), FIND, &steps).await;
    assert!(seen.unwrap_err().contains("Selection"));
}

/// No hedging policy backs off: an overloaded server is not asked again at once.
#[tokio::test(start_paused = true)]
async fn a_hedged_read_is_not_repeated_after_an_overload() {
    let layer = MongoClientLayer::current();
    let (seen, info, _) = run_by(&hedged(4), &layer, FIND, &[Step::Busy; 3]).await;
    assert_eq!((seen.is_err(), info.attempts()), (true, 1));
}

/// M10 M14 M19: a hedge is sent before the classifier is asked.
#[tokio::test(start_paused = true)]
async fn a_policy_of_a_call_hedges_nothing_that_runs_once() {
    let hedges = || HedgePolicy::new(2, ms(20)).hedge_non_idempotent();
    let policy = || RoutePolicy::new("own").hedge(hedges()).with_timeout(ms(70));
    for (layer, command) in [
        (MongoClientLayer::new(), INSERT),
        (MongoClientLayer::current(), INSERT),
        (MongoClientLayer::new(), IN_TRANSACTION),
        (MongoClientLayer::new().retry_reads(false), FIND),
    ] {
        let mut call = Call::new(command);
        call.context_mut().set_policy(Arc::new(policy()));
        let (seen, info, took) = send(layer.layer(client(&[Step::Hangs])), call).await;
        assert_eq!((seen.is_err(), info.attempts()), (true, 1), "{command:?}");
        assert_eq!(took, ms(70), "its timeout stays");
    }
}

#[tokio::test]
async fn a_client_can_be_boxed_and_spawned_and_keeps_its_error() {
    let boxed = BoxCloneService::new(MongoClientLayer::new().layer(client(&[LOST; 2])));
    let task = tokio::spawn(boxed.oneshot(Call::new(FIND)));
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.transport().map(|error| error.attempt), Some(2));
}

/// Keeps why attempts were sent.
#[derive(Debug, Default)]
struct Kinds(Mutex<Vec<AttemptKind>>);

impl Observer for Kinds {
    fn attempt_sent(&self, context: &CallContext) {
        self.0.lock().unwrap().push(context.kind());
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_retries_and_hedges() {
    use AttemptKind::{Hedge, Initial, Retry};
    let kinds = Arc::new(Kinds::default());
    let layer = MongoClientLayer::new().observer(kinds.clone());
    assert_eq!(run(&layer, FIND, &[STEPPED_DOWN]).await.0, Ok(2));
    let (seen, ..) = run_by(&hedged(2), &layer, FIND, &[Step::Hangs]).await;
    assert_eq!(seen, Ok(2));
    assert_eq!(*kinds.0.lock().unwrap(), [Initial, Retry, Initial, Hedge]);
}
