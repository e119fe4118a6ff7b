//! A route policy that the stack cannot serve is reported.

use std::sync::Arc;

use reattempt::strategy::MaxAttempts;
use reattempt::test_util::{
    Answer, CallResult, Fault, Payload, attempt, call_result, listen, ms, probe, verdict,
};
use reattempt::{
    Call, CallContext, DeadlineLayer, HasCallContext, HedgeLayer, HedgePolicy, RetryLayer,
    RouteLayer, RoutePolicy, Verdict,
};
use tower::util::BoxCloneService;
use tower::{ServiceBuilder, ServiceExt};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;
type Stack = BoxCloneService<Call<Payload>, Answer, Fault>;

fn limited() -> RouteLayer<Arc<RoutePolicy>> {
    RouteLayer::new(Arc::new(RoutePolicy::new("slow").with_timeout(ms(50))))
}

fn retry() -> RetryLayer<Verdicts> {
    RetryLayer::new(verdict, MaxAttempts::standard())
}

fn hedge() -> HedgeLayer<Verdicts> {
    HedgeLayer::new(verdict, HedgePolicy::new(2, ms(500)).hedge_non_idempotent())
}

fn deadline() -> DeadlineLayer {
    DeadlineLayer::new(ms(1000))
}

/// Builds a stack of these layers, outermost first.
macro_rules! stack {
    ($($layer:expr),* => $inner:expr) => {
        Stack::new(ServiceBuilder::new()$(.layer($layer))*.service($inner))
    };
}

type Build = fn(Stack) -> Stack;

/// The single warning for a request.
async fn said(build: Build, policy: Option<RoutePolicy>) -> String {
    let listener = listen();
    let probe = probe([attempt(1).after(ms(1))]);
    let mut request = probe.request();
    if let Some(policy) = policy {
        request.context_mut().set_policy(Arc::new(policy));
    }
    let outcome = build(Stack::new(probe.inner())).oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings[0].clone()
}

/// A policy's timeout that no layer enforces, or that is attached too late.
#[tokio::test(start_paused = true)]
async fn a_policys_timeout_that_cannot_work_is_reported() {
    let cases: [(&str, Build); 5] = [
        (
            "RouteLayer is below the DeadlineLayer",
            |inner| stack!(deadline(), limited(), retry() => inner),
        ),
        (
            "RouteLayer is inside the recovery layer",
            |inner| stack!(retry(), limited() => inner),
        ),
        (
            "RetryLayer got a policy with a timeout",
            |inner| stack!(limited(), retry() => inner),
        ),
        (
            "RetryLayer got a policy with a timeout",
            |inner| stack!(limited(), retry(), DeadlineLayer::no_timeout() => inner),
        ),
        (
            "HedgeLayer got a policy with a timeout",
            |inner| stack!(limited(), hedge() => inner),
        ),
    ];
    for (want, build) in cases {
        let said = said(build, None).await;
        assert!(said.starts_with(want), "{want}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policys_timeout_in_its_place_ends_the_call_silently() {
    let listener = listen();
    let probe = probe([attempt(1).after(ms(60))]);
    let routes = HedgeLayer::by_policy(verdict as Verdicts);
    let right = stack!(limited(), deadline(), retry(), routes => probe.inner());
    let outcome = right.oneshot(probe.request()).await;
    assert_eq!(
        (call_result(&outcome), probe.log().now()),
        (CallResult::Elapsed, 50)
    );
    assert!(listener.warnings().is_empty());
}

/// Calls without a policy are the outer recovery layer's.
#[tokio::test(start_paused = true)]
async fn a_hedge_policy_that_never_applies_warns() {
    let cases: [Build; 3] = [
        |inner| stack!(retry(), hedge() => inner),
        |inner| stack!(retry(), hedge().unclaimed() => inner),
        |inner| stack!(RetryLayer::by_policy(verdict as Verdicts), hedge() => inner),
    ];
    for build in cases {
        let said = said(build, None).await;
        assert!(
            said.starts_with("HedgeLayer has a policy of its own"),
            "{said}"
        );
    }
    let listener = listen();
    let probe = probe([attempt(1).after(ms(600)), attempt(2)]);
    let right = stack!(hedge(), RetryLayer::by_policy(verdict as Verdicts) => probe.inner());
    let outcome = right.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert!(listener.warnings().is_empty());
}

/// A recovery layer cannot see the layers below: it warns after an attempt without a limit.
#[tokio::test(start_paused = true)]
async fn a_policys_attempt_limit_that_no_layer_enforces_warns() {
    fn each() -> RouteLayer<Arc<RoutePolicy>> {
        RouteLayer::new(Arc::new(
            RoutePolicy::new("slow").with_attempt_timeout(ms(50)),
        ))
    }
    let cases: [(&str, Build); 3] = [
        ("RetryLayer", |inner| stack!(each(), retry() => inner)),
        (
            "RetryLayer",
            |inner| stack!(each(), deadline(), retry() => inner),
        ),
        ("HedgeLayer", |inner| stack!(each(), hedge() => inner)),
    ];
    for (layer, build) in cases {
        let said = said(build, None).await;
        let want = format!("{layer} got a policy with a timeout for each attempt");
        assert!(said.starts_with(&want), "{said}");
    }
    let listener = listen();
    let probe = probe([attempt(1).after(ms(1))]);
    let right = stack!(each(), retry(), DeadlineLayer::no_timeout() => probe.inner());
    let outcome = right.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
    assert!(listener.warnings().is_empty());
}

/// A policy with a feature that no layer in the stack serves.
#[tokio::test(start_paused = true)]
async fn a_policy_that_no_layer_serves_is_said() {
    let hedges =
        RoutePolicy::new("hedges").hedge(HedgePolicy::new(2, ms(1)).hedge_non_idempotent());
    let warnings = said(|inner| stack!(retry() => inner), Some(hedges)).await;
    assert!(
        warnings.starts_with("RetryLayer got a policy that hedges"),
        "{warnings}"
    );
    let retries = RoutePolicy::new("retries").retry(MaxAttempts::standard());
    let warnings = said(|inner| stack!(hedge() => inner), Some(retries)).await;
    assert!(
        warnings.starts_with("HedgeLayer got a policy that retries"),
        "{warnings}"
    );
}
