//! What a throttle that counts calls receives.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::policy::throttle::Settled;
use crate::policy::{HedgePolicy, Recovery};
use crate::test_util::{Step, ms};
use crate::{HedgeLayer, RouteLayer, Transparent};
use tower_layer::Layer as TowerLayer;

/// Counts calls as a budget does: successes of first attempts, and first attempts without one.
#[derive(Debug, Default)]
struct Calls(AtomicU32);

impl Calls {
    fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl RetryThrottle for Calls {
    fn settled(&self, outcome: Settled<'_>) {
        if outcome == Settled::Success {
            self.first_failed();
        }
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }

    fn recovered(&self, _: Option<&Failure>) {}

    fn first_failed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many calls are counted for one that is dropped after a second at the latest.
async fn counted<L>(layer: L, steps: impl IntoIterator<Item = Step>) -> u32
where
    L: TowerLayer<Probe>,
    L::Service: Service<Call<Payload>, Response = Answer, Error = Fault>,
{
    let calls = Arc::new(Calls::default());
    let probe = probe(steps);
    let mut request = probe.request();
    let context = request.context_mut();
    context.set_throttle(calls.clone());
    context.set_idempotency(crate::Idempotency::Idempotent);
    let service = layer.layer(probe.inner());
    let _ = tokio::time::timeout(Duration::from_secs(1), service.oneshot(request)).await;
    calls.seen()
}

fn fails(n: u32) -> Step {
    attempt(n).fails(KV_TEMPORARY_FAILURE)
}

#[tokio::test(start_paused = true)]
async fn a_retried_call_counts_once_however_it_ends() {
    let layer = || RetryLayer::new(verdict as Verdicts, RetryOnce);
    let cases: [Vec<Step>; 9] = [
        vec![attempt(1)],
        vec![attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)],
        vec![fails(1), attempt(2)],
        vec![fails(1), fails(2)],
        vec![fails(1), attempt(2).fails_fatally(KV_TEMPORARY_FAILURE)],
        vec![fails(1).transparently(Transparent::Once), attempt(2)],
        vec![
            fails(1).transparently(Transparent::Once),
            fails(2),
            attempt(3),
        ],
        vec![attempt(1).hangs()],
        vec![fails(1), attempt(2).hangs()],
    ];
    for (at, steps) in cases.into_iter().enumerate() {
        assert_eq!(counted(layer(), steps).await, 1, "case {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedged_call_counts_once_whichever_attempt_wins() {
    let layer = || HedgeLayer::new(verdict as Verdicts, HedgePolicy::new(3, ms(10)));
    let cases: [Vec<Step>; 8] = [
        vec![attempt(1)],
        vec![attempt(1).after(ms(15)), attempt(2).hangs()],
        vec![attempt(1).hangs(), attempt(2)],
        vec![fails(1), attempt(2)],
        vec![
            fails(1).after(ms(15)),
            attempt(2).after(ms(50)),
            attempt(3).hangs(),
        ],
        vec![fails(1), fails(2), fails(3)],
        vec![attempt(1).hangs(), attempt(2).hangs(), attempt(3).hangs()],
        vec![attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)],
    ];
    for (at, steps) in cases.into_iter().enumerate() {
        assert_eq!(counted(layer(), steps).await, 1, "case {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_layer_acts_on_counts_once() {
    let hedged =
        RoutePolicy::new("h").with_recovery(Recovery::Hedge(Arc::new(HedgePolicy::new(2, ms(10)))));
    let policy = Arc::new(hedged);
    for steps in [
        vec![attempt(1)],
        vec![fails(1)],
        vec![attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)],
    ] {
        let policy = Arc::clone(&policy);
        let route = RouteLayer::new(move |_: &Call<Payload>| Some(Arc::clone(&policy)));
        // The policy hedges, and there is no `HedgeLayer`.
        let layer = ServiceBuilder::new()
            .layer(route)
            .layer(RetryLayer::new(verdict as Verdicts, RetryOnce))
            .into_inner();
        assert_eq!(counted(layer, steps).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_committed_call_counts_once_when_its_response_ends() {
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    for end in [
        Verdict::Success,
        Verdict::Retry(failure),
        Verdict::Fatal(failure),
    ] {
        for steps in [
            vec![attempt(1).commits()],
            vec![fails(1), attempt(2).commits()],
        ] {
            let calls = Arc::new(Calls::default());
            let probe = probe(steps);
            let mut request = probe.request();
            request.context_mut().set_throttle(calls.clone());
            let reporter = Arc::new(std::sync::Mutex::new(None));
            let seen = Arc::clone(&reporter);
            let service = ServiceBuilder::new()
                .layer(RetryLayer::new(verdict as Verdicts, RetryOnce))
                .map_request(move |request: Call<Payload>| {
                    let context = request.context().unwrap();
                    *seen.lock().unwrap() = Some(context.reporter().follow());
                    request
                })
                .service(probe.inner());
            let _response = service.oneshot(request).await.unwrap();
            let reporter = reporter.lock().unwrap().take().unwrap();
            reporter.finish(&end);
            reporter.finish(&Verdict::Success);
            assert_eq!(calls.seen(), 1, "{end:?}");
        }
    }
}

/// A second budget on the same script: what both say of an overload.
#[tokio::test(start_paused = true)]
async fn a_ratio_budget_goes_on_where_a_token_bucket_stops() {
    let sent = async |throttle: Arc<dyn RetryThrottle>| {
        let mut attempts = 0;
        for _ in 0..300 {
            let probe = probe([fails(1), fails(2)]);
            let service = ServiceBuilder::new()
                .layer(ThrottleLayer::new(Arc::clone(&throttle)))
                .layer(RetryLayer::new(verdict as Verdicts, RetryOnce))
                .service(probe.inner());
            let _ = service.oneshot(probe.request()).await;
            attempts += probe.log().times().len();
            tokio::time::advance(ms(100)).await;
        }
        attempts - 300
    };
    let ratio = RatioBudget::new(200, 0, Duration::from_secs(10)).unwrap();
    assert_eq!(
        sent(Arc::new(ratio)).await,
        60,
        "a fifth, for as long as it lasts"
    );
    let bucket = TokenBucket::new(10, 100).unwrap();
    assert_eq!(sent(Arc::new(bucket)).await, 2, "above half, and then none");
}
