mod calls;

use std::sync::Arc;

use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::policy::strategy::RetryOnce;
use crate::{Call, CallContext, Failure, RetryThrottle, RoutePolicy, Stage, Verdict};
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::*;
use crate::RetryLayer;
use crate::test_util::{Answer, Fault, Payload, Probe, attempt, listen, probe, verdict};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

fn full() -> Arc<TokenBucket> {
    Arc::new(TokenBucket::new(10, 100).unwrap())
}

fn fill(bucket: &TokenBucket) -> u64 {
    bucket.milli_tokens().unwrap_or_default()
}

fn stack(bucket: &Arc<TokenBucket>, probe: &Probe) -> impl Service<Call<Payload>> + use<> {
    ServiceBuilder::new()
        .layer(ThrottleLayer::new(bucket.clone()))
        .layer(RetryLayer::new(verdict as Verdicts, RetryOnce))
        .service(probe.inner())
}

/// R21: the final attempt's failure counts too.
#[tokio::test(start_paused = true)]
async fn each_settled_attempt_is_counted() {
    let bucket = full();
    let failing = probe((1..=2).map(|n| attempt(n).fails(KV_TEMPORARY_FAILURE)));
    let _ = stack(&bucket, &failing).oneshot(failing.request()).await;
    assert_eq!(fill(&bucket), 8000);
    let working = probe([attempt(1)]);
    let _ = stack(&bucket, &working).oneshot(working.request()).await;
    assert_eq!(fill(&bucket), 8100);
}

/// R24
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_fatal_does_not_count() {
    let bucket = full();
    let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
    let _ = stack(&bucket, &probe).oneshot(probe.request()).await;
    assert_eq!(fill(&bucket), 10_000);
}

#[tokio::test(start_paused = true)]
async fn by_policy_only_the_throttle_of_others_applies() {
    for of_policy in [false, true] {
        let bucket = full();
        let mut policy = RoutePolicy::new("route");
        if of_policy {
            policy = policy.with_throttle(bucket.clone());
        }
        let failing = probe((1..=2).map(|n| attempt(n).fails(KV_TEMPORARY_FAILURE)));
        let service = ServiceBuilder::new()
            .layer(crate::RouteLayer::new(Arc::new(policy)))
            .layer(ThrottleLayer::by_policy())
            .layer(RetryLayer::new(verdict as Verdicts, RetryOnce))
            .service(failing.inner());
        let _ = service.oneshot(failing.request()).await;
        assert_eq!(fill(&bucket), if of_policy { 8000 } else { 10_000 });
        assert_eq!(failing.log().times().len(), 2);
    }
}

/// R20
#[tokio::test(start_paused = true)]
async fn a_bucket_at_half_sends_first_attempts_only() {
    let bucket = full();
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    (0..4).for_each(|_| bucket.settled(Settled::Failure(&failure)));
    let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE)]);
    let _ = stack(&bucket, &probe).oneshot(probe.request()).await;
    assert_eq!((fill(&bucket), probe.log().times().len()), (5000, 1));
}

#[tokio::test(start_paused = true)]
async fn throttles_apply_in_the_order_caller_policy_layer() {
    let (caller, policy, layer) = (full(), full(), full());
    let fills = |buckets: [&TokenBucket; 3]| buckets.map(fill);
    let send = |attach: fn(&mut CallContext, [&Arc<TokenBucket>; 2])| {
        let probe = probe((1..=2).map(|n| attempt(n).fails(KV_TEMPORARY_FAILURE)));
        let mut request = probe.request();
        attach(request.context_mut(), [&caller, &policy]);
        stack(&layer, &probe).oneshot(request)
    };
    let attach_policy: fn(&mut CallContext, [&Arc<TokenBucket>; 2]) = |context, [_, policy]| {
        let policy = RoutePolicy::new("p").with_throttle(policy.clone());
        context.set_policy(Arc::new(policy));
    };
    let _ = send(|_, _| ()).await;
    assert_eq!(fills([&caller, &policy, &layer]), [10_000, 10_000, 8000]);
    let _ = send(attach_policy).await;
    assert_eq!(fills([&caller, &policy, &layer]), [10_000, 8000, 8000]);
    let _ = send(|context, [caller, policy]| {
        let of_policy = RoutePolicy::new("p").with_throttle(policy.clone());
        context
            .set_policy(Arc::new(of_policy))
            .set_throttle(caller.clone());
    })
    .await;
    assert_eq!(fills([&caller, &policy, &layer]), [8000, 8000, 8000]);
}

#[tokio::test(start_paused = true)]
async fn below_the_recovery_layer_it_warns_once() {
    let listener = listen();
    let bucket = full();
    let layer = ThrottleLayer::new(bucket.clone());
    for _ in 0..2 {
        let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
        let service =
            RetryLayer::new(verdict as Verdicts, RetryOnce).layer(layer.layer(probe.inner()));
        let _ = service.oneshot(probe.request()).await;
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("ThrottleLayer is inside the recovery layer"),
        "{warnings:?}"
    );
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    service::<ThrottleLayer>();
    service::<Throttle<Probe>>();
};

/// Records what is spent and refunded, by the code of the failure.
#[derive(Debug, Default)]
struct Priced(std::sync::Mutex<Vec<(&'static str, Option<i32>)>>);

impl Priced {
    fn seen(&self) -> Vec<(&'static str, Option<i32>)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl RetryThrottle for Priced {
    fn settled(&self, outcome: Settled<'_>) {
        if outcome == Settled::Success {
            self.0.lock().unwrap().push(("success", None));
        }
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        failure.is_none_or(|failure| failure.code != Some(8))
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        let code = failure.and_then(|failure| failure.code);
        self.0.lock().unwrap().push(("spend", code));
        code != Some(9)
    }

    fn refund(&self, failure: Option<&Failure>) {
        let code = failure.and_then(|failure| failure.code);
        self.0.lock().unwrap().push(("refund", code));
    }

    fn recovered(&self, failure: Option<&Failure>) {
        let code = failure.and_then(|failure| failure.code);
        self.0.lock().unwrap().push(("recovered", code));
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_with_prices_pays_for_each_retry_until_one_works() {
    use crate::policy::strategy::MaxAttempts;
    use crate::{Transparent, backoff::Backoff};

    let fails = |n: u32, code| attempt(n).fails(KV_TEMPORARY_FAILURE).code(code);
    for (steps, seen) in [
        (vec![attempt(1)], vec![("success", None)]),
        (
            vec![fails(1, 1), fails(2, 2), attempt(3)],
            vec![
                ("spend", Some(1)),
                ("spend", Some(2)),
                ("recovered", Some(2)),
            ],
        ),
        // A transparent retry has no price, and does not change what was paid before it.
        (
            vec![
                fails(1, 1),
                fails(2, 2).transparently(Transparent::Once),
                attempt(3),
            ],
            vec![("spend", Some(1)), ("recovered", Some(1))],
        ),
        (
            vec![fails(1, 2).transparently(Transparent::Once), attempt(2)],
            vec![("recovered", None)],
        ),
        (vec![fails(1, 8)], vec![]),
        (vec![fails(1, 9)], vec![("spend", Some(9))]),
    ] {
        let throttle = Arc::new(Priced::default());
        let probe = probe(steps);
        // One throttle of a pair pays as it does alone.
        let pair = crate::policy::throttle::Both(throttle.clone(), full());
        let strategy = MaxAttempts::new(4, Backoff::constant(std::time::Duration::ZERO));
        let service = ServiceBuilder::new()
            .layer(ThrottleLayer::new(Arc::new(pair)))
            .layer(RetryLayer::new(verdict as Verdicts, strategy))
            .service(probe.inner());
        let _ = service.oneshot(probe.request()).await;
        assert_eq!(throttle.seen(), seen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_pays_only_for_retries_that_are_sent() {
    use std::time::Duration;

    use crate::CallDeadline;
    use crate::policy::backoff::Backoff;
    use crate::policy::strategy::MaxAttempts;

    let second = Duration::from_secs(1);
    let run = async |deadline: Option<Duration>, patience: Duration| {
        let throttle = Arc::new(Priced::default());
        let fails = |n| attempt(n).fails(KV_TEMPORARY_FAILURE).code(1);
        let probe = probe([fails(1), attempt(2).hangs()]);
        let service = ServiceBuilder::new()
            .layer(ThrottleLayer::new(throttle.clone()))
            .layer(RetryLayer::new(
                verdict as Verdicts,
                MaxAttempts::new(2, Backoff::constant(second)),
            ))
            .service(probe.inner());
        let mut request = probe.request();
        if let Some(deadline) = deadline {
            let at = tokio::time::Instant::now().into_std() + deadline;
            request
                .context_mut()
                .attach_deadline(CallDeadline::attached(at));
        }
        let outcome = tokio::time::timeout(patience, service.oneshot(request)).await;
        drop(outcome);
        throttle.seen()
    };
    let long = second * 10;
    let paid = ("spend", Some(1));
    assert_eq!(run(Some(second), long).await, [], "past the deadline");
    let given_back = [paid, ("refund", Some(1))];
    assert_eq!(
        run(None, second / 2).await,
        given_back,
        "dropped during its delay"
    );
    assert_eq!(run(None, long).await, [paid], "dropped after it was sent");
}
