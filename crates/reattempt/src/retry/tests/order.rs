//! Several recovery layers in one stack: one acts, the others pass through.

use crate::{HedgePolicy, RetryThrottle, RoutePolicy, TokenBucket};
use tower::ServiceBuilder;

use super::*;
use crate::HedgeLayer;

#[tokio::test(start_paused = true)]
async fn of_nested_retry_layers_the_outermost_acts() {
    let probe = probe((1..=3).map(|n| attempt(n).fails(TMPFAIL)));
    let service = ServiceBuilder::new()
        .layer(retry(three()))
        .layer(retry(three()))
        .service(probe.inner());
    let outcome = service.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Error(3));
    assert_eq!(probe.log().times(), [0, 10, 20]);
}

fn policies() -> [Arc<RoutePolicy>; 2] {
    let hedge = HedgePolicy::new(2, ms(4)).hedge_non_idempotent();
    [
        Arc::new(RoutePolicy::new("retry").retry(three())),
        Arc::new(RoutePolicy::new("hedge").hedge(hedge)),
    ]
}

/// Kinds of the attempts under each policy; the first attempt takes 20 ms and fails, the second
/// succeeds.
async fn kinds<S>(stack: impl Fn(Probe) -> S) -> [(Vec<AttemptKind>, u64); 2]
where
    S: Service<Call<Payload>, Response = Answer, Error = Fault>,
{
    let mut seen = Vec::new();
    for policy in policies() {
        let bucket = Arc::new(TokenBucket::new(10, 1000).unwrap());
        let probe = probe([attempt(1).fails(TMPFAIL).after(ms(20)), attempt(2)]);
        let mut request = probe.request();
        request
            .context_mut()
            .set_policy(policy)
            .set_throttle(bucket.clone());
        let outcome = stack(probe.inner()).oneshot(request).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(2));
        seen.push((probe.log().kinds(), probe.log().now()));
        assert_eq!(bucket.milli_tokens(), Some(10_000), "each settled once");
    }
    seen.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_stack_serves_both_policies_in_either_order() {
    use AttemptKind::{Hedge, Initial, Retry};
    let want = [(vec![Initial, Retry], 30), (vec![Initial, Hedge], 4)];
    let retry_outside = |probe| {
        ServiceBuilder::new()
            .layer(retry(RetryOnce))
            .layer(HedgeLayer::by_policy(verdict as Verdicts))
            .service(probe)
    };
    assert_eq!(kinds(retry_outside).await, want);
    let hedge_outside = |probe| {
        ServiceBuilder::new()
            .layer(HedgeLayer::by_policy(verdict as Verdicts))
            .layer(retry(RetryOnce))
            .service(probe)
    };
    assert_eq!(kinds(hedge_outside).await, want);
}

/// R23
#[tokio::test(start_paused = true)]
async fn a_call_that_no_layer_acted_on_is_counted_once() {
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let mut request = probe.request();
    let [_, hedge] = policies();
    request
        .context_mut()
        .set_policy(hedge)
        .set_throttle(bucket.clone());
    // Both pass the call through: the policy hedges, and there is no hedge layer.
    let service = ServiceBuilder::new()
        .layer(retry(three()))
        .layer(retry(three()))
        .service(probe.inner());
    let outcome = service.oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    assert_eq!(bucket.milli_tokens(), Some(9000));
}
